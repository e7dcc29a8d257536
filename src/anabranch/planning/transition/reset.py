"""What is kept of a job that is reset, so that the job writes each batch only once after the reset, too. Pure.

Outputs know lanes by their names, and intermediate streams contain the event times that lanes reported. So the records
of all lanes stay, without their positions and state: names of lanes are never reused, epochs only rise, and records
between stages count as read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from anabranch.model.graph import Graph
from anabranch.model.lane import Lane, LaneState
from anabranch.model.ssp import SSP
from anabranch.operators.rules import is_boundary
from anabranch.planning import stages

__all__ = ["between_stages", "forgotten", "may_write"]


def may_write(lane: Lane) -> bool:
    """Whether an earlier process of a lane may still write, so that the lane must be fenced first."""
    return lane.state is not LaneState.CLOSED and (lane.begun or lane.ran or lane.folder_epoch > 0)


def between_stages(lanes: Iterable[Lane], graphs: Iterable[Graph]) -> dict[str, str]:
    """The intermediate streams of a job in any of its versions that a lane writes, each with its system."""
    own = {stages.stream_of(graph, node) for graph in graphs for node in graph.nodes if is_boundary(node)}
    return {stream: lane.system(stream) for lane in lanes for stream in lane.outputs if stream in own}


def forgotten(lanes: Iterable[Lane], ends: Mapping[SSP, int]) -> list[Lane]:
    """All lanes that a job ever had, in the form in which they should be stored.

    Args:
        ends: the ends of its intermediate streams.
    """
    return [
        msgspec.structs.replace(
            lane,
            state=LaneState.CLOSED,
            starting=(),
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
