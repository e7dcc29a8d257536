"""Plans what a lane with given tasks reads and writes, and makes the lanes of a plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from anabranch.model.graph import Graph, Node
from anabranch.model.lane import DEFAULT_SYSTEM, Lane
from anabranch.model.ssp import SSP, in_order, wholes
from anabranch.model.task import Task
from anabranch.operators import rule
from anabranch.operators.rules import is_boundary, late_of, on_late
from anabranch.planning import stages
from anabranch.planning.groups import Group
from anabranch.planning.plan.numbers import incomplete, numbers_of, virtual_of
from anabranch.planning.plan.planned import Output, Plan, PlannedLane
from anabranch.planning.plan.slots import slots_of
from anabranch.planning.plan.surroundings import Surroundings

__all__ = ["lane", "lanes_of", "reads", "with_dead_letters"]


def lanes_of(plan: Plan, state_partitions: int, new_id: Callable[[], str]) -> tuple[Lane, ...]:
    """The lanes of a new deployment. ``new_id`` returns 8 random hex digits per call."""
    ids = [f"{lane.stage}-{new_id()}" for lane in plan.lanes]
    return tuple(
        Lane(
            id=ids[number],
            job=plan.model.job,
            deployment=0,
            stage=lane.stage,
            group=lane.group,
            seat=lane.seat,
            tasks=lane.tasks,
            ssps=lane.ssps,
            broadcast=lane.broadcast,
            matched=lane.matched,
            base=lane.base,
            slots=slots_of(lane, state_partitions),
            upstream=tuple(ids[u] for u in lane.upstream),
            beside={ids[n]: () for n, other in enumerate(plan.lanes) if _together(other, lane)},
            outputs=lane.outputs,
            systems=lane.systems,
            dead_letters=lane.dead_letters,
            reports=lane.reports,
            rejecting=lane.rejecting,
            stateful=lane.stateful,
            factor=plan.model.factor,
            numbers=lane.numbers,
            bases=lane.bases,
            buckets=lane.buckets,
            state_partitions=state_partitions,
        )
        for number, lane in enumerate(plan.lanes)
    )


def _together(one: PlannedLane, other: PlannedLane) -> bool:
    return (one.stage, one.group) == (other.stage, other.group)


def lane(
    graph: Graph,
    group: Group,
    seat: str,
    tasks: list[Task],
    before: Sequence[PlannedLane],
    written: Mapping[str, Output],
    around: Surroundings,
) -> PlannedLane:
    """A group's lane for some of a seat's tasks.

    Args:
        before: the lanes that have been planned already, some of which may write this lane's inputs.
        written: the stage's outputs to streams and tables, by operator.
    """
    factor = around.factor
    streams = {stream for source in group.sources for stream in around.read(graph, source)}
    named = [name for name in (stages.stream_of(graph, s) for s in group.sources) if name in around.patterns]
    ssps = sorted(dict.fromkeys(s for task in tasks for s in task.ssps if s.stream in streams), key=in_order)
    broadcast = {s for task in tasks for s in task.broadcast if s.stream in streams}
    virtual = virtual_of(tasks, factor)
    boundaries = {s.name for s in group.sources if is_boundary(s)}
    written_by = tuple(
        number
        for number, lane in enumerate(before if boundaries else ())
        if lane.stage != group.stage and not boundaries.isdisjoint(lane.operators)
    )
    mine = [written[s.name] for s in group.sinks if s.name in written]
    return PlannedLane(
        stage=group.stage,
        group=group.name,
        seat=seat,
        operators=tuple(n.name for n in group.nodes if n not in group.sources),
        streams=tuple(sorted(streams)),
        stateful=group.stateful is not None,
        tasks=tuple(task.name for task in tasks),
        ssps=tuple(ssps),
        broadcast=tuple(sorted(broadcast, key=in_order)),
        matched={name: around.patterns[name].streams for name in named},
        base=dict(zip(map(str, ssps), wholes(ssps), strict=True)),
        numbers=numbers_of(tasks, ssps, factor),
        bases=tuple(sorted(virtual)),
        buckets=incomplete(virtual, factor) if broadcast else {},
        upstream=written_by,
        outputs={str(o.stream): o.partitions for o in mine},
        systems=_elsewhere(mine),
    )


def with_dead_letters(
    graph: Graph,
    group: Group,
    lane: PlannedLane,
    aside: Mapping[str, Output],
    reports: tuple[str, ...],
    around: Surroundings,
) -> PlannedLane:
    """The lane with the dead-letter streams that it writes.

    Args:
        aside: the dead-letter stream of each source that has one, by the source's name.
        reports: the sources whose unreadable records this lane writes to their dead-letter streams. If several groups
            read a source, only the lanes of one group write the source's unreadable records.
    """
    rejecting = [n.name for n in group.nodes if _rejects(group, n)]
    rejecting += [late_of(n) for n in group.nodes if on_late(n) == "dead-letter"]
    sources = [n for n in group.sources if n.name in aside and (rejecting or n.name in reports)]
    taken = {stream: aside[n.name] for n in sources for stream in around.read(graph, n)}
    return msgspec.structs.replace(
        lane,
        outputs={**lane.outputs, **{str(o.stream): o.partitions for o in taken.values()}},
        systems={**lane.systems, **_elsewhere(taken.values())},
        rejecting=(*reports, *rejecting) if taken else (),
        dead_letters={read: str(o.stream) for read, o in taken.items()},
        reports=reports,
    )


def _rejects(group: Group, node: Node) -> bool:
    """Whether there can be rows that an operator can't process. Sources don't count: see ``reports`` in
    :func:`with_dead_letters`."""
    return node not in group.sources and (rule(node).stateful or rule(node).function or node.kind == "partition_by")


def _elsewhere(outputs: Iterable[Output]) -> dict[str, str]:
    """The system of each output stream or table that isn't in the embedded log."""
    return {str(o.stream): str(o.system) for o in outputs if o.stream is not None and o.system != DEFAULT_SYSTEM}


def reads(lanes: Iterable[PlannedLane]) -> dict[str, int]:
    """How many lanes read each partition, by whole SSP."""
    found: Counter[SSP] = Counter()
    for lane in lanes:
        found.update(set(wholes((*lane.ssps, *lane.broadcast))))
    return {str(s): found[s] for s in sorted(found, key=lambda s: s.order)}
