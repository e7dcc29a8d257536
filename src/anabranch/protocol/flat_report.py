"""Heartbeats for older coordinators, which expect lane reports in a flat form: without parts."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from anabranch.model.document import Document
from anabranch.protocol.container import Heartbeat
from anabranch.protocol.lane_report import FLAT_NAMES, PART_OF, PARTS, LaneReport

__all__ = ["flattened"]

_TOP = [name for name in LaneReport.__struct_fields__ if name not in PARTS]

_FlatReport = msgspec.defstruct(
    "FlatReport", [*((name, Any) for name in _TOP), *((FLAT_NAMES[name], Any) for name in PART_OF)], bases=(Document,)
)
"""A report in the flat form: the fields of all parts are fields of the report itself."""


def flattened(beat: Heartbeat) -> Heartbeat:
    """The same heartbeat in the form for an older coordinator. Only encode and send the result: its lanes aren't real
    :class:`LaneReport` objects.
    """
    return msgspec.structs.replace(beat, lanes=tuple(map(_flat, beat.lanes)))


def _flat(report: LaneReport) -> LaneReport:
    fields = {name: getattr(report, name) for name in _TOP}
    fields |= {FLAT_NAMES[name]: getattr(getattr(report, part), name) for name, part in PART_OF.items()}
    return cast("LaneReport", _FlatReport(**fields))
