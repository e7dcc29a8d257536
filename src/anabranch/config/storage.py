"""The section ``[storage]``."""

from __future__ import annotations

from anabranch.config.section import Section

__all__ = ["StorageSettings"]


class StorageSettings(Section):
    """``root``: where lanes' checkpoint folders live: a path or any URI that Spark can checkpoint to."""

    root: str = "./.anabranch/lanes"
