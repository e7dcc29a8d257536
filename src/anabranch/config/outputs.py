"""The sections ``[outputs.NAME]``."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict

from anabranch.config.section import Section

__all__ = ["OutputSettings"]


class OutputSettings(Section):
    """Binds an output of a job to a table instead of a stream.

    ``to`` is the kind of table: one that anabranch knows, such as ``parquet`` or ``delta``, or your own class as
    ``module:Class``. The kind determines the other settings: see :mod:`anabranch.tables`. A relative ``path`` is
    resolved from the configuration file's folder.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    to: str

    @property
    def options(self) -> dict[str, Any]:
        """The settings that belong to the kind of table."""
        return dict(self.model_extra or {})
