"""How long a stream keeps its records."""

from __future__ import annotations

import msgspec

__all__ = ["Retention"]


class Retention(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How long each partition keeps the records that all known readers have read. There are two limits, by time and by
    size; None means no limit. If a record is beyond either limit, it can be deleted.

    Attributes:
        ms: the time limit: for how many milliseconds a record is kept after it was written.
        bytes: the size limit: a record is kept while all newer records of its partition together have fewer bytes than
            this number.
    """

    ms: int | None = None
    bytes: int | None = None
