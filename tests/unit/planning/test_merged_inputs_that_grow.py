"""Streams that are merged without state, and grow: each partition is read on from where its lanes ended."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from anabranch import Job
from anabranch.model.job_model import JobModel
from anabranch.model.lane import Lane, LaneState, Position
from anabranch.model.ssp import SSP, wholes
from anabranch.planning import plan as planning
from anabranch.planning.ownership.buckets import floors
from anabranch.planning.transition import expand, follow, opening, rescale
from anabranch.planning.transition.change import Change
from tests.unit.planning.factory import around, new_id

Counts = dict[str, int]
Part = tuple[str, int]
"""A partition, and a bucket of it at the largest factor."""
_CONTAINERS = st.integers(1, 4)
_FINEST = 4
_FACTORS = st.sampled_from([1, 2, _FINEST])
_CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("grow"), st.sampled_from(["a", "b"]), st.integers(1, 4)),
        st.tuples(st.just("scale"), _FACTORS, _CONTAINERS),
    ),
    min_size=1,
    max_size=5,
)


def merged() -> Job:
    made = Job("j")
    made.read("a").merge(made.read("b")).write("out")
    return made


def ended_at(lane: Lane, ends: dict[str, int]) -> Lane:
    """A lane that has read each of its partitions up to where the partition ends."""
    final = tuple(Position(ssp=ssp, offset=ends[str(ssp)]) for ssp in dict.fromkeys(wholes(lane.ssps)))
    its = {"state": LaneState.CLOSED, "folder_epoch": 1, "begun": True, "ran": True}
    return msgspec.structs.replace(lane, **its, final=final, last_batch=lane.first_batch + 1)


def parts_of(lane: Lane, ssp: SSP) -> list[Part]:
    """The buckets of a partition, at the largest factor, that an SSP of a lane consists of."""
    every = range(max(0, ssp.key_bucket), _FINEST, 1 if ssp.key_bucket < 0 else lane.factor)
    return [(str(ssp.whole), bucket) for bucket in every]


def begins_of(lane: Lane) -> dict[Part, int]:
    """Where a lane begins to read each bucket: at 0, if no lane has read its partition."""
    found = {}
    for whole, places in floors(lane).items():
        for ssp in (each for each in lane.ssps if each.whole == whole):
            for name, bucket in parts_of(lane, ssp):
                found[name, bucket] = 0 if whole in lane.fresh else places[bucket % len(places)]
    return found


@given(
    grouper=st.sampled_from(["partition", "ssp", "cogroup"]),
    counts=st.fixed_dictionaries({"a": st.integers(1, 4), "b": st.integers(1, 4)}),
    factor=_FACTORS,
    containers=_CONTAINERS,
    changes=_CHANGES,
)
def test_each_partition_is_read_once_and_from_where_it_was_left(
    grouper: str, counts: Counts, factor: int, containers: int, changes: list[tuple[str, str | int, int]]
) -> None:
    graph, present = merged().graph, dict(counts)
    plan = planning.make(graph, around(grouper, factor, containers, **present))
    model: JobModel = plan.model
    lanes = {lane.id: lane for lane in planning.lanes_of(plan, 4, new_id)}
    ends: dict[Part, int] = {}
    for at, (kind, first, second) in enumerate(changes, 1):
        reached = {f"embedded/{name}/{number}": 10 * at for name, count in present.items() for number in range(count)}
        change: Change
        if kind == "grow":
            present[str(first)] += second
            change = expand.expanded(
                graph, model, lanes, {f"embedded/{name}": count for name, count in present.items()}, new_id
            )
        else:
            change = rescale.rescaled(graph, model, lanes, int(first), second, new_id)
        closed = {name: ended_at(lanes[name], reached) for name in change.closing}
        ends |= {
            part: reached[part[0]] for lane in closed.values() for ssp in lane.ssps for part in parts_of(lane, ssp)
        }
        lanes |= closed
        for lane in change.lanes:
            lanes[lane.id] = opened = opening.opened(lane, lanes)
            assert begins_of(opened) == {part: ends.get(part, 0) for part in begins_of(opened)}
        model = change.model
        read = [str(ssp) for lane in follow.heads(lanes.values()) for ssp in lane.ssps]
        assert sorted(read) == sorted(str(ssp) for task in model.stages[0].tasks for ssp in task.ssps)
