"""Makes the plan of a new deployment, stage by stage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from anabranch.model.graph import Graph
from anabranch.model.job_model import ContainerModel, JobModel, StageModel
from anabranch.model.task import Task
from anabranch.operators.rules import is_boundary
from anabranch.planning import groups, real_time, stages, traffic
from anabranch.planning.assignment import assignor
from anabranch.planning.assignment.assignor import Seating, Where
from anabranch.planning.groups import Group
from anabranch.planning.lane_split import spread
from anabranch.planning.plan import lanes as planned_lanes
from anabranch.planning.plan import outputs as planned_outputs
from anabranch.planning.plan.planned import Output, Plan, PlannedLane
from anabranch.planning.plan.promises import AT_LEAST_ONCE, kind
from anabranch.planning.plan.surroundings import Surroundings
from anabranch.planning.plan.tasks import partition_counts, stage_inputs, stage_model, tasks_of
from anabranch.planning.stages import Stage

__all__ = ["make"]


def make(graph: Graph, around: Surroundings) -> Plan:
    """Plan a job.

    Raises:
        GraphError: the graph can't be run as written, or a user's own grouper returned invalid tasks.
        NotFoundError: a stream that is read doesn't exist.
        ConfigError: a setting isn't allowed for this job, for example because of the grouper, because of an output's
            promise, or because of real-time mode.
    """
    cut = stages.cut(graph)
    planned_outputs.check_written(graph, cut)
    systems = stages.systems(graph, around.systems, around.default_system)
    systems |= {stream: each.system for each in around.patterns.values() for stream in each.streams}
    if around.real_time is not None:
        real_time.check(graph, cut, systems, around.real_time)
    counts = partition_counts(graph, cut, systems, around)
    models: list[StageModel] = []
    lanes: list[PlannedLane] = []
    outputs: list[Output] = []
    warnings: list[str] = []
    for stage in cut:
        inputs = stage_inputs(graph, stage, systems, counts, around)
        models.append(stage_model(stage, inputs, tasks_of(stage, inputs, around, warnings), around))
    where = _where(graph, cut, systems, around)
    found = assignor.seat(models, {}, where, around.placement.rules)
    if found.why_not:
        warnings.append(f"racks are ignored when tasks are placed: {found.why_not}")
    by_seat = {stage.stage: _by_seat(stage, found, where.seats) for stage in models}
    for stage in cut:
        sinks = [planned_outputs.output(graph, stage, sink, systems, around, counts) for sink in stage.sinks]
        aside = planned_outputs.dead_letters(graph, stage, systems, around, counts) if around.real_time is None else {}
        outputs += [*sinks, *aside.values()]
        written = {o.operator: o for o in sinks if o.stream is not None}
        lanes += _lanes(graph, _groups(graph, stage, systems, around), by_seat[stage.id], lanes, written, aside, around)
    containers = tuple(
        ContainerModel(
            seat=seat,
            tasks={stage: tuple(task.name for task in seats[seat]) for stage, seats in by_seat.items()},
            rack=rack,
        )
        for seat, rack in found.racks.items()
    )
    model = JobModel(
        job=graph.job,
        run_id=0,
        generation=1,
        factor=around.factor,
        stages=tuple(models),
        containers=containers,
        lanes=around.lanes,
    )
    planned_outputs.check_all(outputs, around)
    return Plan(
        model=model,
        lanes=tuple(lanes),
        outputs=tuple(outputs),
        reads_per_ssp=planned_lanes.reads(lanes),
        warnings=tuple(warnings),
        traffic=traffic.of(lanes, where),
    )


def _by_seat(stage: StageModel, found: Seating, seats: Iterable[str]) -> dict[str, list[Task]]:
    tasks: dict[str, list[Task]] = {seat: [] for seat in seats}
    for task in stage.tasks:
        tasks[found.seats[stage.stage][task.name]].append(task)
    return tasks


def _lanes(
    graph: Graph,
    parts: Iterable[Group],
    by_seat: Mapping[str, Sequence[Task]],
    before: Sequence[PlannedLane],
    written: Mapping[str, Output],
    aside: Mapping[str, Output],
    around: Surroundings,
) -> list[PlannedLane]:
    """The lanes of the stage whose groups are ``parts``. ``before`` are the lanes of earlier stages. ``written`` is
    explained in :func:`anabranch.planning.plan.lanes.lane`, and ``aside`` in
    :func:`anabranch.planning.plan.lanes.with_dead_letters`.
    """
    found: list[PlannedLane] = []
    reported: set[str] = set()
    for group in parts:
        reports = tuple(n.name for n in group.sources if n.name in aside and n.name not in reported)
        reported.update(reports)
        for seat, mine in by_seat.items():
            for part in spread(mine, 1 if group.stateful else around.lanes, around.factor):
                lane = planned_lanes.lane(graph, group, seat, part, before, written, around)
                if lane.ssps or lane.broadcast:
                    found.append(planned_lanes.with_dead_letters(graph, group, lane, aside, reports, around))
    return found


def _groups(graph: Graph, stage: Stage, systems: Mapping[str, str], around: Surroundings) -> list[Group]:
    written_to = [stages.stream_of(graph, s) for s in stage.sinks if planned_outputs.is_stream(s)]
    kinds = {stream: kind(systems[stream], around.delivered(stream) == AT_LEAST_ONCE) for stream in written_to}
    return list(groups.cut(graph, stage, kinds))


def _where(graph: Graph, cut: Iterable[Stage], systems: Mapping[str, str], around: Surroundings) -> Where:
    """The racks of the seats and of the partitions of existing streams, and what else is needed to assign tasks."""
    own = {f"{systems[stream]}/{stream}" for stage in cut for stream in _between(graph, stage)}
    lanes: dict[str, Counter[str]] = {}
    for stage in cut:
        read = (n for group in _groups(graph, stage, systems, around) for n in group.sources)
        streams = (stream for node in read for stream in around.read(graph, node))
        lanes[stage.id] = Counter(f"{systems[stream]}/{stream}" for stream in streams)
    racks = around.placement.racks
    return Where(
        seats={str(seat): racks[seat % len(racks)] if racks else None for seat in range(around.containers)},
        partitions=around.placement.replicas,
        coming=own - around.placement.replicas.keys(),
        lanes=lanes,
    )


def _between(graph: Graph, stage: Stage) -> list[str]:
    return [stages.stream_of(graph, sink) for sink in stage.sinks if is_boundary(sink)]
