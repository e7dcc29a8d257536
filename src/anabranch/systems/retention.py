"""How long a stream keeps its records."""

from __future__ import annotations

import msgspec

__all__ = ["Retention"]


class Retention(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How long each partition keeps the records that all known readers have read. None means no limit. A record can
    be deleted as soon as one of the limits no longer keeps it.

    Attributes:
        ms: for how many milliseconds a record is kept after it was written.
        bytes: a record is kept while the newer records of its partition have fewer bytes than this in total.
    """

    ms: int | None = None
    bytes: int | None = None
