"""Reports of lanes, from fields of any of their parts."""

from __future__ import annotations

from typing import Any

from anabranch.protocol.lane_report import LanePhase, LaneReport


def lane_report(lane: str, phase: LanePhase | str, **fields: Any) -> LaneReport:
    return LaneReport(lane=lane, phase=LanePhase(phase)).changed(**fields)
