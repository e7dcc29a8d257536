"""The slots of a lane: the parts into which its output is divided."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from anabranch.model.lane import Lane
from anabranch.model.ssp import wholes
from anabranch.planning.plan.planned import PlannedLane

__all__ = ["slots_of", "task_slots"]

_STATE = "state"


def slots_of(lane: PlannedLane | Lane, state_partitions: int) -> tuple[str, ...]:
    """The names of a lane's slots. The slots for rows come first, followed by the slots for the dead letters of each
    operator. A slot's number is its index in the result, so the order must never change.
    """
    ssps = tuple(map(str, dict.fromkeys(wholes((*lane.ssps, *lane.broadcast)))))
    state = tuple(f"{_STATE}-{number}" for number in range(state_partitions)) if lane.stateful else ()
    aside = [name for operator in lane.rejecting for name in (f"{operator}:{part}" for part in (*ssps, *state))]
    return (*(state or ssps), *aside)


def task_slots(lanes: Iterable[PlannedLane | Lane], state_partitions: int) -> int:
    """The maximum number of Spark tasks that run in one container at once in real-time mode, where all Spark stages of
    a query run together. ``lanes`` are all lanes of the job.
    """
    slots: Counter[str] = Counter()
    for lane in lanes:
        read = {ssp.whole for ssp in (*lane.ssps, *lane.broadcast)}
        slots[lane.seat] += len(read) + (state_partitions if lane.stateful else 0)
    return max(slots.values(), default=0)
