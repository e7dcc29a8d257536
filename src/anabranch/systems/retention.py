"""How long a stream keeps its records."""

from __future__ import annotations

import msgspec

__all__ = ["Retention"]


class Retention(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How long each partition keeps the records that all known readers have read. None means no limit.

    Attributes:
        ms: for how many milliseconds after they were written.
        bytes: while the newer records of the partition have fewer bytes than this in total.
    """

    ms: int | None = None
    bytes: int | None = None
