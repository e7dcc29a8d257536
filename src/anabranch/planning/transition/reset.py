"""Determines which data of a job a reset keeps, so that the job still writes its outputs exactly once. Pure functions.

Outputs contain markers under the names of lanes, and intermediate streams contain the watermarks that lanes reported.
So the store keeps an entry for every lane, but not the lane's positions and state. As a result, names of lanes are
never reused, epochs only rise, and the records in intermediate streams count as read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from anabranch.model.graph import Graph
from anabranch.model.lane import Lane, LaneState
from anabranch.model.ssp import SSP
from anabranch.planning import stages

__all__ = ["between_stages", "forgotten", "may_write"]


def may_write(lane: Lane) -> bool:
    """Whether a process might still write for a lane. If so, the lane must be fenced before the reset."""
    return lane.state is not LaneState.CLOSED and (lane.begun or lane.ran or lane.folder_epoch > 0)


def between_stages(lanes: Iterable[Lane], graphs: Iterable[Graph]) -> dict[str, str]:
    """The intermediate streams that the lanes of any version of a job write, and the system of each stream."""
    own = {stream for graph in graphs for stream in stages.intermediate_streams(graph)}
    return {stream: lane.system(stream) for lane in lanes for stream in lane.outputs if stream in own}


def forgotten(lanes: Iterable[Lane], ends: Mapping[SSP, int]) -> list[Lane]:
    """All lanes that a job ever had, as they are stored after the reset.

    Args:
        ends: the end offsets of the job's intermediate streams.
    """
    return [
        msgspec.structs.replace(
            lane,
            state=LaneState.CLOSED,
            starting=(),
            opened=False,
            inherits={},
            final=(),
            folder_epoch=0,
            unfenced=False,
            abandoned=False,
            watermark=None,
            error=None,
            wrote={str(ssp): end for ssp, end in ends.items() if ssp.stream in lane.outputs},
        )
        for lane in lanes
    ]
