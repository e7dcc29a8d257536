"""The whole plan of a deployment: stages with tasks, containers, lanes, reads per SSP and what each output promises."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from anabranch.assignment import seating
from anabranch.assignment.seating import Rules, Where
from anabranch.errors import ConfigError, GraphError, NotFoundError
from anabranch.grouping import keys as grouping_keys
from anabranch.grouping import validation
from anabranch.grouping.request import Grouper, Input, Request
from anabranch.model.document import Document
from anabranch.model.graph import Graph, Node
from anabranch.model.job_model import ContainerModel, JobModel, Matched, StageModel
from anabranch.model.lane import Lane
from anabranch.model.ssp import SSP, in_order, wholes
from anabranch.model.task import Task
from anabranch.model.traffic import Traffic
from anabranch.operators import rule
from anabranch.operators.rules import is_boundary, late_of, on_late
from anabranch.planning import groups, real_time, stages, traffic
from anabranch.planning.groups import Group
from anabranch.planning.real_time import RealTime
from anabranch.planning.spreading import spread
from anabranch.planning.stages import Stage

EXACTLY_ONCE = "exactly once"
AT_LEAST_ONCE = "at least once; can be written twice"
STATE = "state"


@dataclass(frozen=True)
class Surroundings:
    """What a plan needs to know besides the graph: settings and what the systems say.

    ``partitions``: counts of the streams that exist; ``systems``: of the streams that are bound to one, others live in
    ``default_system`` (see :func:`stages.systems`); ``patterns``: the inputs that are several streams (see
    :func:`anabranch.planning.patterns.found`), whose systems are known, too; ``at_least_once``: the outputs with that
    delivery. ``real_time``: the settings that real-time mode goes by, None in micro-batches. ``lanes``: how many a
    group without state has in each container. ``bases``: of a job that is there already, with how many partitions state
    of streams was first written: its keys are together if they were then. ``rules``: how tasks get their seats;
    ``racks``: those of the seats, in turn; ``replicas``: those of partitions, see
    :class:`anabranch.assignment.seating.Where`.
    """

    factor: int
    containers: int
    grouper_name: str
    grouper: Grouper
    partitions: dict[str, int]
    systems: dict[str, str]
    default_system: str = "embedded"
    patterns: Mapping[str, Matched] = field(default_factory=dict)
    at_least_once: Collection[str] = ()
    real_time: RealTime | None = None
    lanes: int = 1
    bases: Mapping[str, int] = field(default_factory=dict)
    rules: Rules = field(default_factory=Rules)
    racks: Sequence[str] = ()
    replicas: Mapping[str, Mapping[int, Sequence[str | None]]] = field(default_factory=dict)

    def delivered(self, stream: str) -> str:
        """What the output into a stream promises."""
        return AT_LEAST_ONCE if self.real_time is not None or stream in self.at_least_once else EXACTLY_ONCE

    def read(self, graph: Graph, source: Node) -> tuple[str, ...]:
        """The streams that a source is of."""
        stream = stages.stream_of(graph, source)
        return self.patterns[stream].streams if stream in self.patterns else (stream,)


class PlannedLane(Document, frozen=True, kw_only=True):
    """A lane before it has an id. ``upstream`` are indexes of the lanes that write its inputs.

    ``rejecting``: the operators that may put records aside.
    """

    stage: str
    group: str
    seat: str
    operators: tuple[str, ...]
    streams: tuple[str, ...]
    stateful: bool
    tasks: tuple[str, ...]
    ssps: tuple[SSP, ...]
    broadcast: tuple[SSP, ...] = ()
    matched: dict[str, tuple[str, ...]] = {}
    base: dict[str, SSP] = {}
    numbers: dict[str, int] = {}
    bases: tuple[int, ...] = ()
    buckets: dict[str, tuple[int, ...]] = {}
    upstream: tuple[int, ...] = ()
    outputs: dict[str, int] = {}
    systems: dict[str, str] = {}
    rejecting: tuple[str, ...] = ()
    dead_letters: dict[str, str] = {}
    reports: tuple[str, ...] = ()


class Output(Document, frozen=True, kw_only=True):
    """An output and its promise. ``partitions``: what it is created with if it doesn't exist (0: it is no stream).

    ``dead_letters``: it takes what could not be processed; its operator is the one that reads the records.
    """

    operator: str
    stage: str
    promise: str
    system: str | None = None
    stream: str | None = None
    partitions: int = 0
    intermediate: bool = False
    dead_letters: bool = False


class Plan(Document, frozen=True, kw_only=True):
    """What ``anabranch plan`` shows and ``run`` hands over. ``reads_per_ssp`` counts the lanes that read each SSP.

    ``traffic``: None where racks aren't known.
    """

    model: JobModel
    lanes: tuple[PlannedLane, ...]
    outputs: tuple[Output, ...]
    reads_per_ssp: dict[str, int]
    warnings: tuple[str, ...] = ()
    traffic: Traffic | None = None


def make(graph: Graph, around: Surroundings) -> Plan:
    """Plan a job.

    Raises:
        GraphError: the graph can't be run as written.
        NotFoundError: a stream that is read doesn't exist.
        ConfigError: a grouper, factor or container count that can't be.
    """
    cut = stages.cut(graph)
    _check_outputs(graph, cut)
    systems = stages.systems(graph, around.systems, around.default_system)
    systems |= {stream: each.system for each in around.patterns.values() for stream in each.streams}
    if around.real_time is not None:
        real_time.check(graph, cut, systems, around.real_time)
    counts = _counts(graph, cut, systems, around)
    models: list[StageModel] = []
    lanes: list[PlannedLane] = []
    outputs: list[Output] = []
    warnings: list[str] = []
    for stage in cut:
        inputs = _inputs(graph, stage, systems, counts, around)
        models.append(_stage_model(stage, inputs, tasks_of(stage, inputs, around, warnings), around))
    where = _where(graph, cut, systems, around)
    found = seating.seat(models, {}, where, around.rules)
    if found.why_not:
        warnings.append(f"tasks are placed without racks: {found.why_not}")
    placed: dict[str, dict[str, tuple[str, ...]]] = {seat: {} for seat in where.seats}
    for stage, its_model in zip(cut, models, strict=True):
        by_seat: dict[str, list[Task]] = {seat: [] for seat in where.seats}
        for task in its_model.tasks:
            by_seat[found.seats[stage.id][task.name]].append(task)
        for seat, its in by_seat.items():
            placed[seat][stage.id] = tuple(task.name for task in its)
        stage_outputs = [_output(graph, stage, sink, systems, around, counts) for sink in stage.sinks]
        aside = _dead_letters(graph, stage, systems, around, counts) if around.real_time is None else {}
        outputs += [*stage_outputs, *aside.values()]
        written = {o.operator: o for o in stage_outputs if o.stream is not None}
        reported: set[str] = set()
        for group in _groups(graph, stage, systems, around):
            reports = tuple(n.name for n in group.sources if n.name in aside and n.name not in reported)
            reported.update(reports)
            for seat, mine in by_seat.items():
                for part in spread(mine, 1 if group.stateful else around.lanes, around.factor):
                    lane = _lane(graph, group, seat, part, lanes, written, around)
                    if lane.ssps or lane.broadcast:
                        lanes.append(_with_dead_letters(graph, group, lane, aside, reports, around))
    containers = tuple(ContainerModel(seat=seat, tasks=placed[seat], rack=rack) for seat, rack in found.racks.items())
    model = JobModel(
        job=graph.job,
        run_id=0,
        generation=1,
        factor=around.factor,
        stages=tuple(models),
        containers=containers,
        lanes=around.lanes,
    )
    _check_all(outputs, around)
    return Plan(
        model=model,
        lanes=tuple(lanes),
        outputs=tuple(outputs),
        reads_per_ssp=_reads(lanes),
        warnings=tuple(warnings),
        traffic=traffic.of(lanes, where),
    )


def _groups(graph: Graph, stage: Stage, systems: Mapping[str, str], around: Surroundings) -> list[Group]:
    written_to = [stages.stream_of(graph, s) for s in stage.sinks if _is_stream(s)]
    kinds = {stream: kind(systems[stream], around.delivered(stream) == AT_LEAST_ONCE) for stream in written_to}
    return list(groups.cut(graph, stage, kinds))


def _where(graph: Graph, cut: Iterable[Stage], systems: Mapping[str, str], around: Surroundings) -> Where:
    """The racks of seats, and of the partitions of the streams that are there."""
    own = {f"{systems[stream]}/{stream}" for stage in cut for stream in _between(graph, stage)}
    lanes: dict[str, Counter[str]] = {}
    for stage in cut:
        read = (n for group in _groups(graph, stage, systems, around) for n in group.sources)
        streams = (stream for node in read for stream in around.read(graph, node))
        lanes[stage.id] = Counter(f"{systems[stream]}/{stream}" for stream in streams)
    racks = around.racks
    return Where(
        seats={str(seat): racks[seat % len(racks)] if racks else None for seat in range(around.containers)},
        partitions=around.replicas,
        coming=own - around.replicas.keys(),
        lanes=lanes,
    )


def _between(graph: Graph, stage: Stage) -> list[str]:
    return [stages.stream_of(graph, sink) for sink in stage.sinks if is_boundary(sink)]


def lanes_of(plan: Plan, state_partitions: int, new_id: Callable[[], str]) -> tuple[Lane, ...]:
    """Records for a new deployment; ``new_id`` gives 8 random hex digits a call."""
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


def slots_of(lane: PlannedLane | Lane, state_partitions: int) -> tuple[str, ...]:
    """The parts of a lane's output, by the names that they have whatever runs where: those of its rows, then those of
    what each operator puts aside. The place in the list is the slot's number: never change the order."""
    ssps = tuple(map(str, dict.fromkeys(wholes((*lane.ssps, *lane.broadcast)))))
    state = tuple(f"{STATE}-{number}" for number in range(state_partitions)) if lane.stateful else ()
    aside = [name for operator in lane.rejecting for name in (f"{operator}:{part}" for part in (*ssps, *state))]
    return (*(state or ssps), *aside)


def task_slots(plan: Plan, state_partitions: int) -> int:
    """How many tasks of a container's lanes run at once in real-time mode: all of all stages of their queries."""
    slots: Counter[str] = Counter()
    for lane in plan.lanes:
        read = {ssp.whole for ssp in (*lane.ssps, *lane.broadcast)}
        slots[lane.seat] += len(read) + (state_partitions if lane.stateful else 0)
    return max(slots.values(), default=0)


def task_numbers(stage: StageModel, factor: int) -> dict[SSP, int]:
    """The hidden grouping column: for each whole partition, the number of the task (at factor 1) that reads it."""
    return {ssp.whole: task.index // factor for task in stage.tasks for ssp in task.ssps}


def numbers_of(tasks: Iterable[Task], ssps: Iterable[SSP], factor: int) -> dict[str, int]:
    """For each whole partition of some SSPs, the number of the task (at factor 1) that reads it."""
    found = {(ssp.system, ssp.stream, ssp.partition): task.index // factor for task in tasks for ssp in task.ssps}
    read = dict.fromkeys(wholes(ssps))
    return {str(whole): found[whole.system, whole.stream, whole.partition] for whole in read}


def virtual_of(tasks: Iterable[Task], factor: int) -> dict[int, tuple[int, ...]]:
    """By the number of a task at factor 1, the buckets of it that some virtual tasks are."""
    found: dict[int, list[int]] = {}
    for task in sorted(tasks, key=lambda task: task.index):
        found.setdefault(task.index // factor, []).append(task.index % factor)
    return {number: tuple(buckets) for number, buckets in found.items()}


def incomplete(virtual: Mapping[int, Collection[int]], factor: int) -> dict[str, tuple[int, ...]]:
    """Those of :func:`virtual_of` that aren't all buckets of a task."""
    return {str(number): tuple(sorted(its)) for number, its in virtual.items() if len(its) < factor}


def _together(one: PlannedLane, other: PlannedLane) -> bool:
    return (one.stage, one.group) == (other.stage, other.group)


def _is_stream(node: Node) -> bool:
    return node.kind == "write" or is_boundary(node)


def kind(system: str, at_least_once: bool) -> str:
    """What the outputs of one group have in common."""
    return f"{system}-at-least-once" if at_least_once else system


def _counts(graph: Graph, cut: Iterable[Stage], systems: Mapping[str, str], around: Surroundings) -> dict[str, int]:
    """Partition counts of all inputs; an intermediate stream has the most that an input of its stage has, and so has an
    input of several streams."""
    counts: dict[str, int] = {}
    for stage in cut:
        for source in stage.sources:
            stream = stages.stream_of(graph, source)
            if stream in around.patterns:
                its = {each: around.partitions[each] for each in around.read(graph, source)}
                counts |= {**its, stream: max(its.values())}
            elif stream in around.partitions:
                counts[stream] = around.partitions[stream]
            elif source.kind == "read":
                raise NotFoundError(
                    f"read {source.name!r} ({source.where}): there is no stream {stream!r} in {systems[stream]}",
                    f"create it: anabranch stream create {stream} --partitions 4; or see: anabranch stream list",
                )
        most = max(counts[stages.stream_of(graph, s)] for s in stage.sources)
        for sink in stage.sinks:
            if is_boundary(sink):
                stream = stages.stream_of(graph, sink)
                counts[stream] = around.partitions.get(stream, sink.args.get("partitions", most))
    return counts


def _inputs(
    graph: Graph, stage: Stage, systems: Mapping[str, str], counts: Mapping[str, int], around: Surroundings
) -> tuple[Input, ...]:
    return tuple(
        Input(
            system=systems[stream],
            stream=stream,
            partitions=counts[stream],
            broadcast=bool(source.args.get("broadcast")),
        )
        for source in stage.sources
        for stream in around.read(graph, source)
    )


def tasks_of(stage: Stage, inputs: tuple[Input, ...], around: Surroundings, warnings: list[str]) -> tuple[Task, ...]:
    """The tasks of a stage; what is odd about them is added to ``warnings``. Errors as :func:`make`."""
    check_shuffled(stage, around.factor, around.containers)
    request = Request(stage=stage.id, inputs=inputs, factor=around.factor, containers=around.containers)
    tasks = around.grouper(request)
    if ":" in around.grouper_name:
        validation.check(request, tasks)
    keyed = [i for i in inputs if not i.broadcast]
    if stage.stateful and len(keyed) > 1:
        apart = _apart(request, tasks, around)
        if apart is not None:
            node = stage.stateful[0]
            raise GraphError(
                f"{node.kind} {node.name!r} ({node.where}) takes {apart.left} ({apart.left.partitions} partitions) and "
                f"{apart.right} ({apart.right.partitions}) by key, but grouper {around.grouper_name!r} puts a key of "
                "theirs into different tasks",
                f'set [job] grouper = "cogroup": it would give {apart.cogroup_tasks} tasks, every key whole',
            )
        if around.grouper_name == "cogroup" and grouping_keys.single_group(keyed) is not None:
            listed = ", ".join(f"{i}: {i.partitions}" for i in keyed)
            warnings.append(
                f"stage {stage.id} is one single task: its partition counts have no common divisor ({listed})"
            )
    return tasks


def _apart(request: Request, tasks: tuple[Task, ...], around: Surroundings) -> grouping_keys.Apart | None:
    at_first = tuple(replace(i, partitions=around.bases.get(i.stream, i.partitions)) for i in request.inputs)
    if at_first != request.inputs:
        tasks = around.grouper(replace(request, inputs=at_first))
    return grouping_keys.apart(tasks, [i for i in at_first if not i.broadcast])


def check_shuffled(stage: Stage, factor: int, containers: int) -> None:
    """Raises GraphError if a shuffle inside the query keeps a stage from such a factor or number of containers."""
    shuffle = stage.shuffled
    if shuffle is not None and (factor > 1 or containers > 1):
        raise GraphError(
            f"partition_by {shuffle.name!r} ({shuffle.where}) is a shuffle inside the query: stage {stage.id} can't "
            f"have factor {factor} and {containers} container(s)",
            'use via="stream", or factor 1 and one container',
        )


def _stage_model(stage: Stage, inputs: tuple[Input, ...], tasks: tuple[Task, ...], around: Surroundings) -> StageModel:
    return StageModel(
        stage=stage.id,
        key=stage.key,
        stateful=bool(stage.stateful),
        grouper=around.grouper_name,
        inputs=tuple(str(i) for i in inputs),
        tasks=tasks,
        base={str(s): s for i in inputs if not i.broadcast for s in i.ssps} if stage.stateful else {},
        patterns={n.args["stream"]: around.patterns[n.args["stream"]] for n in stage.sources if _is_many(n, around)},
    )


def _is_many(source: Node, around: Surroundings) -> bool:
    return source.kind == "read" and source.args["stream"] in around.patterns


def _lane(
    graph: Graph,
    group: Group,
    seat: str,
    tasks: list[Task],
    before: list[PlannedLane],
    written: dict[str, Output],
    around: Surroundings,
) -> PlannedLane:
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


def _output(
    graph: Graph,
    stage: Stage,
    sink: Node,
    systems: Mapping[str, str],
    around: Surroundings,
    counts: Mapping[str, int],
) -> Output:
    if not _is_stream(sink):
        return Output(operator=sink.name, stage=stage.id, promise=AT_LEAST_ONCE)
    stream = stages.stream_of(graph, sink)
    most = max(counts[stages.stream_of(graph, s)] for s in stage.sources)
    return Output(
        operator=sink.name,
        stage=stage.id,
        promise=around.delivered(stream),
        system=systems[stream],
        stream=stream,
        partitions=counts.get(stream, around.partitions.get(stream, most)),
        intermediate=is_boundary(sink),
    )


def _dead_letters(
    graph: Graph, stage: Stage, systems: Mapping[str, str], around: Surroundings, counts: Mapping[str, int]
) -> dict[str, Output]:
    """By source, where its records go that can't be processed. What the job wrote itself is read well, so the
    intermediate streams have one only where a function may raise, or rows may be late."""
    found: dict[str, Output] = {}
    for source in stage.sources:
        if source.kind == "read" or any(rule(n).function or on_late(n) == "dead-letter" for n in stage.nodes):
            read = stages.stream_of(graph, source)
            stream = stages.dead_letters_of(read)
            found[source.name] = Output(
                operator=source.name,
                stage=stage.id,
                promise=EXACTLY_ONCE,
                system=systems[stream],
                stream=stream,
                partitions=around.partitions.get(stream, counts[read]),
                dead_letters=True,
            )
    return found


def _with_dead_letters(
    graph: Graph,
    group: Group,
    lane: PlannedLane,
    aside: dict[str, Output],
    reports: tuple[str, ...],
    around: Surroundings,
) -> PlannedLane:
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
    """Whether an operator may find that a row can't be processed. (A source finds it of a record.)"""
    return node not in group.sources and (rule(node).stateful or rule(node).function or node.kind == "partition_by")


def _elsewhere(outputs: Iterable[Output]) -> dict[str, str]:
    """The system of each output that isn't in the embedded one."""
    return {str(o.stream): str(o.system) for o in outputs if o.stream is not None and o.system != "embedded"}


def _check_outputs(graph: Graph, cut: Iterable[Stage]) -> None:
    written = {stages.stream_of(graph, s): s for stage in cut for s in stage.sinks if _is_stream(s)}
    for node in graph.nodes:
        if node.kind == "read" and node.args["stream"] in written:
            sink = written[node.args["stream"]]
            raise GraphError(
                f"the job reads stream {node.args['stream']!r} ({node.where}) and writes it too ({sink.where})",
                "write to another stream: a job that feeds itself never ends",
            )


def _reads(lanes: Iterable[PlannedLane]) -> dict[str, int]:
    reads: Counter[SSP] = Counter()
    for lane in lanes:
        reads.update(set(wholes((*lane.ssps, *lane.broadcast))))
    return {str(s): reads[s] for s in sorted(reads, key=lambda s: s.order)}


def _check_all(outputs: Iterable[Output], around: Surroundings) -> None:
    """``all`` on several containers processes each record several times: not with outputs that promise once."""
    exact = next((o for o in outputs if o.promise == EXACTLY_ONCE and not o.dead_letters), None)
    if around.grouper_name == "all" and around.containers > 1 and exact is not None:
        raise ConfigError(
            f'grouper "all" on {around.containers} containers reads each record {around.containers} times, but output '
            f"{exact.operator!r} promises exactly once",
            "use one container, or another grouper",
        )
