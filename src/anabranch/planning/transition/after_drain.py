"""Plans the deployment after a drain or a reset: where its lanes begin, and which of its lanes take over state."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import msgspec

from anabranch.errors import ConflictError, StateError
from anabranch.grouping import expansion
from anabranch.model.graph import Graph
from anabranch.model.job_model import JobModel, StageModel
from anabranch.model.lane import AfterDrain, Lane, Position
from anabranch.model.ssp import SSP, wholes
from anabranch.model.task import Task
from anabranch.operators.rules import outlives_drain
from anabranch.planning import plan, stages
from anabranch.planning.assignment import placement
from anabranch.planning.transition import deploy, expand, follow, rescale
from anabranch.planning.transition.deployed_stages import read_by

__all__ = ["again", "begun", "continuing", "keeps_state", "lanes_with_state", "positions"]

_CURE = "undo this change, or begin without state: --reset-state"


def keeps_state(graph: Graph, group: str) -> bool:
    """Whether the operator of this name has state that survives a drain."""
    node = next((each for each in graph.nodes if each.name == group), None)
    return node is not None and outlives_drain(node)


def positions(lanes: Iterable[Lane], graph: Graph) -> dict[SSP, int]:
    """The start offsets, by whole SSP, of the deployment after a drain or a reset. The records before these offsets
    have been read. (After a reset, the records in intermediate streams count as read.)

    Args:
        lanes: all lanes that the job ever had. For a partition that the last deployment didn't read, only the lanes of
            the newest earlier deployment that read it are considered. If they ended at different positions, the start
            offset is the lowest position. A lane is ignored if a successor continued to read the partition.
        graph: the graph of the next deployment. Its intermediate streams are read from their ends.

    Raises:
        StateError: lanes of the drained deployment stopped reading a partition at different positions.
    """
    found: dict[SSP, int] = {}
    known = list(lanes)
    last = max((lane.deployment for lane in known), default=0)
    successors = _successors(known)
    for deployment in sorted({lane.deployment for lane in known}, reverse=True):
        left: dict[SSP, int] = {}
        for lane in known:
            for whole, at in _left(lane, successors.get(lane.id, ()), found) if lane.deployment == deployment else ():
                if left.setdefault(whole, at) != at and deployment == last:
                    raise StateError(
                        f"the lanes of deployment {deployment} ended at different offsets of {whole}: {left[whole]} "
                        f"and {at}",
                        "this is a bug in anabranch: drained lanes end at the same offset",
                    )
                left[whole] = min(at, left[whole])
        found = {**left, **found}
    own = stages.intermediate_streams(graph)
    ends = _ends(known)
    return {ssp: at for ssp, at in found.items() if ssp.stream not in own} | {
        ssp: at for ssp, at in ends.items() if ssp.stream in own
    }


def _successors(lanes: Iterable[Lane]) -> dict[str, list[Lane]]:
    found: dict[str, list[Lane]] = {}
    for lane in lanes:
        for name in lane.predecessors:
            found.setdefault(name, []).append(lane)
    return found


def _left(lane: Lane, successors: Iterable[Lane], known: Collection[SSP]) -> list[tuple[SSP, int]]:
    """The partitions that a lane read and that no successor continued to read. Each has the position at which the lane
    ended. Partitions in ``known`` are left out."""
    ended = [(position.ssp.whole, position.offset) for position in lane.final if position.ssp.whole not in known]
    read_on = {position.ssp.whole for each in successors for position in each.final} if ended else set()
    return [(whole, at) for whole, at in ended if whole not in read_on]


def continuing(
    model: JobModel,
    planned: Sequence[Lane],
    graph: Graph,
    former: JobModel,
    lanes: Mapping[str, Lane],
    new_id: Callable[[], str],
) -> tuple[JobModel, tuple[Lane, ...]]:
    """The model and the lanes of the deployment after a drain. Stages that keep state get their former tasks.

    A planned stage gets the tasks of a drained stage, in the same seats, if these conditions hold:

    - Operators of the planned stage keep state, and all of this state is from the drained stage.
    - Both stages have the same grouper, and no stream that both read is broadcast in only one of them.
    - Both stages have the same inputs, or the grouper is a built-in one.

    If the inputs differ, each partition of the planned stage's inputs goes to the task that has, or would have, the
    state of the partition's keys. Partitions that were added to a stream after the drained stage began to read it are
    left out. A later expansion adds each of these partitions to the tasks that have the state of the partition's keys.
    All other stages stay as planned. If the plan has another factor or other seats than the drained deployment, nothing
    is changed.

    Args:
        model: the model as planned.
        planned: the lanes that were planned with ``model``.
        graph: the graph of the next deployment.
        former: the model of the drained deployment.
        lanes: all lanes that the job ever had, by id.
        new_id: returns 8 random hex digits per call.

    Raises:
        ConflictError: with the tasks that have the state, the planned inputs can't be read.
    """
    seats = [container.seat for container in former.containers]
    if model.factor != former.factor or [container.seat for container in model.containers] != seats:
        return model, tuple(planned)
    kept = lanes_with_state(planned, graph, lanes)
    stages = [_as_drained(stage, planned, former, kept) for stage in model.stages]
    tasks: dict[str, dict[str, list[Task]]] = {}
    for stage, before in stages:
        of, known = (stage.stage, model) if before is None else (before.stage, former)
        home = known.seats_of_tasks()[of]
        # Tasks that have state stay in their seats, even if the tasks that are new leave the seats unbalanced.
        seated = all(task.name in home for task in stage.tasks)
        seat_of = home if seated else {**placement.place(stage.tasks, seats, home), **home}
        tasks[stage.stage] = {seat: [task for task in stage.tasks if seat_of[task.name] == seat] for seat in seats}
    placed = [
        msgspec.structs.replace(
            each,
            tasks={stage: tuple(task.name for task in of_seat[each.seat]) for stage, of_seat in tasks.items()},
        )
        for each in model.containers
    ]
    made = msgspec.structs.replace(model, stages=tuple(stage for stage, _ in stages), containers=tuple(placed))
    if made == model:
        return model, tuple(planned)
    return made, deploy.lanes_of_groups(planned, (), made, tasks, new_id)


def _as_drained(
    stage: StageModel, planned: Sequence[Lane], former: JobModel, kept: Mapping[str, Sequence[Lane]]
) -> tuple[StageModel, StageModel | None]:
    """A pair: the planned stage with the tasks that it gets from a drained stage, and this drained stage. If no drained
    stage fits, the pair consists of the unchanged planned stage and None.
    """
    groups = [lane.group for lane in planned if lane.stage == stage.stage and lane.group in kept]
    names = {lane.stage for group in groups for lane in kept[group]}
    before = [each for each in former.stages if each.stage in names and each.grouper == stage.grouper]
    if len(names) != 1 or not before:
        return stage, None
    (its,) = before
    now, was = read_by(stage), read_by(its)
    if now == was:
        return msgspec.structs.replace(stage, inputs=its.inputs, tasks=its.tasks, base=its.base), its
    if ":" in stage.grouper or {name for name, _ in now - was} & {name for name, _ in was - now}:
        return stage, None
    try:
        return _with_inputs_of(stage, its, former), its
    except ConflictError as error:
        raise ConflictError(f"the state of {groups[0]!r} can't be kept: {error.what}", _CURE) from error


def _with_inputs_of(planned: StageModel, drained: StageModel, former: JobModel) -> StageModel:
    """The planned stage with the tasks of a drained stage, adapted to the planned inputs. A stream that the drained
    stage read keeps the partition count that it had there.
    """
    inputs = rescale.inputs_of(planned, expansion.partitions(drained))
    same = msgspec.structs.replace(planned, inputs=drained.inputs, tasks=drained.tasks, base=drained.base)
    expand.check_together(same, sum(str(each) in drained.inputs for each in inputs), inputs)
    return expansion.expanded(same, inputs, former.factor, former.factor, len(former.containers))


def begun(
    planned: Sequence[Lane],
    graph: Graph,
    lanes: Mapping[str, Lane],
    new_id: Callable[[], str],
    reset_state: bool = False,
) -> tuple[Lane, ...]:
    """The first lanes of the deployment after a drain or a reset: the planned lanes, with their start offsets.

    If an operator keeps its state, each drained lane with a part of this state is followed by one new lane with the
    same tasks. No new lane has predecessors, so all new lanes can start at once.

    Args:
        planned: the lanes as planned for the factor and the containers of the drained deployment, from
            :func:`anabranch.planning.plan.lanes_of` or :func:`again`.
        lanes: all lanes that the job ever had, by id.
        new_id: returns 8 random hex digits per call.
        reset_state: whether all operators begin without state.

    Raises:
        ConflictError: state that should be kept belongs to tasks that the plan doesn't have, or that would read other
            partitions; to a lane that read other streams; or to a seat that no longer has a lane of the operator.
        StateError: as for :func:`positions`.
    """
    last = max((lane.deployment for lane in lanes.values()), default=0)
    before = _last(lanes.values(), last)
    places = positions(lanes.values(), graph)
    kept = {} if reset_state else lanes_with_state(planned, graph, lanes)
    new, become = _with_former(planned, kept, new_id)
    writers: dict[str, list[str]] = {}
    for each in lanes.values():
        for stream in each.outputs:
            writers.setdefault(stream, []).append(each.id)
    found = []
    for lane, former in new:
        upstream = tuple(dict.fromkeys(name for each in lane.upstream for name in become.get(each, (each,))))
        beside = {name: () for each in lane.beside for name in become.get(each, (each,))}
        made = msgspec.structs.replace(lane, upstream=upstream, beside=beside)
        found.append(_begin(made, former, before, places, writers))
    return tuple(found)


def lanes_with_state(planned: Sequence[Lane], graph: Graph, lanes: Mapping[str, Lane]) -> dict[str, list[Lane]]:
    """The drained lanes with state that is kept, by group. For the arguments, see :func:`begun`."""
    last = max((lane.deployment for lane in lanes.values()), default=0)
    before = _last(lanes.values(), last)
    stateful = dict.fromkeys(lane.group for lane in planned if lane.stateful)
    found = {group: [lane for lane in before if lane.group == group and lane.stateful] for group in stateful}
    return {group: several for group, several in found.items() if several and keeps_state(graph, group)}


def again(lanes: Mapping[str, Lane], new_id: Callable[[], str]) -> tuple[Lane, ...]:
    """Planned lanes, with new ids, that do the same work as the last lanes of the previous deployment."""
    last = max((lane.deployment for lane in lanes.values()), default=0)
    heads = _last(lanes.values(), last)
    ids = {lane.id: f"{lane.stage}-{new_id()}" for lane in heads}
    found = []
    for lane in heads:
        read = {ssp.stream for ssp in (*lane.ssps, *lane.broadcast)}
        together = [each for each in heads if (each.stage, each.group) == (lane.stage, lane.group)]
        found.append(
            msgspec.structs.replace(
                follow.as_planned(lane),
                id=ids[lane.id],
                upstream=tuple(ids[each.id] for each in heads if not read.isdisjoint(each.outputs)),
                beside={ids[each.id]: () for each in together},
            )
        )
    return tuple(found)


def _last(lanes: Iterable[Lane], deployment: int) -> list[Lane]:
    """The lanes of a deployment that have no successor."""
    found = list(lanes)
    followed = {name for lane in found for name in lane.predecessors}
    return [lane for lane in found if lane.deployment == deployment and lane.id not in followed]


def _ends(lanes: Iterable[Lane]) -> dict[SSP, int]:
    """For each partition of an intermediate stream, the highest end offset that any lane reported when it ended."""
    found: dict[SSP, int] = {}
    for lane in lanes:
        for text, end in lane.wrote.items():
            ssp = SSP.parse(text)
            found[ssp] = max(end, found.get(ssp, end))
    return found


def _with_former(
    planned: Sequence[Lane], kept: Mapping[str, Sequence[Lane]], new_id: Callable[[], str]
) -> tuple[list[tuple[Lane, Lane | None]], dict[str, list[str]]]:
    """Pair each new lane with the drained lane whose state the new lane takes over, or with None. Also returns a
    mapping for the groups that keep state: it maps the id of each planned lane to the ids of all new lanes of the same
    group.

    Args:
        kept: for each group, the drained lanes whose state is kept.
    """
    new: list[tuple[Lane, Lane | None]] = []
    become: dict[str, list[str]] = {}
    tasks = {name for lane in planned for name in lane.tasks}
    for group in dict.fromkeys(lane.group for lane in planned):
        mine = [lane for lane in planned if lane.group == group]
        if group not in kept:
            new += [(lane, None) for lane in mine]
            continue
        for former in kept[group]:
            _check_kept(former, mine, tasks)
        _check_partitions(group, kept[group], mine)
        ids = [lane.id for lane in mine]
        ids += [f"{mine[0].stage}-{new_id()}" for _ in kept[group][len(ids) :]]
        ids = ids[: len(kept[group])]
        become.update({lane.id: ids for lane in mine})
        new += [(_shaped(mine, former, name), former) for name, former in zip(ids, kept[group], strict=True)]
    return new, become


def _check_kept(former: Lane, mine: Sequence[Lane], tasks: set[str]) -> None:
    read = [
        sorted({(s.system, s.stream, s in each.broadcast) for s in (*each.ssps, *each.broadcast)})
        for each in (former, mine[0])
    ]
    missing = [name for name in former.tasks if name not in tasks]
    if missing or read[0] != read[1] or former.seat not in {lane.seat for lane in mine}:
        why = (
            f"it contains that of task {missing[0]}, which no longer exists"
            if missing
            else f"its lane read {_listed(read[0])}, and now reads {_listed(read[1])}"
            if read[0] != read[1]
            else f"its lane was in seat {former.seat}, which has no such lane now"
        )
        raise ConflictError(f"the state of {former.group!r} can't be kept: {why}", _CURE)


def _check_partitions(group: str, former: Sequence[Lane], mine: Sequence[Lane]) -> None:
    """Raises ConflictError if the planned lanes of a group don't read exactly the partitions that the group's drained
    lanes read, each in the same task. The state of the partition's keys is in this task, and the new lanes will read
    only what the drained lanes read.
    """
    was, now = _reads(former), _reads(mine)
    differing = next((text for text in {**was, **now} if was.get(text) != now.get(text)), None)
    if differing is not None:
        before, after = (" and ".join(sorted(each.get(differing, {"not read"}))) for each in (was, now))
        raise ConflictError(
            f"the state of {group!r} can't be kept: {differing} was {before}, and would be {after}", _CURE
        )


def _reads(lanes: Iterable[Lane]) -> dict[str, set[str]]:
    """How a group's lanes read each partition, as text: in which tasks (at factor 1), or as a broadcast."""
    reads: dict[str, set[str]] = {}
    for lane in lanes:
        for text, number in lane.numbers.items():
            reads.setdefault(text, set()).add(f"read in task {number}")
        for ssp in lane.broadcast:
            reads.setdefault(str(ssp), set()).add("broadcast")
    return reads


def _listed(streams: Iterable[tuple[str, str, bool]]) -> str:
    return ", ".join(stream + (" (broadcast)" if broadcast else "") for _, stream, broadcast in streams)


def _shaped(mine: Sequence[Lane], former: Lane, name: str) -> Lane:
    """A planned lane with the id ``name``, and with the seat, the tasks and the SSPs of a former lane."""
    model = next((lane for lane in mine if lane.seat == former.seat), mine[0])
    lane = msgspec.structs.replace(
        model,
        id=name,
        seat=former.seat,
        tasks=former.tasks,
        ssps=former.ssps,
        broadcast=former.broadcast,
        base=former.base,
        factor=former.factor,
        numbers=former.numbers,
        bases=former.bases,
        buckets=former.buckets,
        state_partitions=former.state_partitions,
    )
    return msgspec.structs.replace(lane, slots=plan.slots_of(lane, former.state_partitions))


def _begin(
    lane: Lane,
    former: Lane | None,
    before: Sequence[Lane],
    places: Mapping[SSP, int],
    writers: Mapping[str, Sequence[str]],
) -> Lane:
    read = [*zip(lane.ssps, wholes(lane.ssps), strict=True), *((ssp, ssp) for ssp in lane.broadcast)]
    starting = tuple(Position(ssp=ssp, offset=places[whole]) for ssp, whole in read if whole in places)
    known = {(whole.system, whole.stream) for whole in places}
    new = dict.fromkeys(whole for _, whole in read if whole not in places and (whole.system, whole.stream) in known)
    streams = {ssp.stream for ssp, _ in read}
    near = [former] if former is not None else _readers(before, streams)
    has_state = former is not None and former.folder_epoch > 0
    return msgspec.structs.replace(
        lane,
        starting=starting,
        fresh=tuple(new),
        inherits={each.id: each.folder_epoch for each in near if each.folder_epoch},
        first_batch=former.last_batch + 1 if former is not None and has_state else 0,
        drained=AfterDrain(
            state=former.id if former is not None and has_state else "",
            writers=tuple(name for stream in sorted(streams) for name in writers.get(stream, ())),
        ),
    )


def _readers(before: Sequence[Lane], streams: set[str]) -> list[Lane]:
    """The drained lanes that read any of ``streams``, and so know what the writers of these streams had reported."""
    return [lane for lane in before if not streams.isdisjoint(ssp.stream for ssp in (*lane.ssps, *lane.broadcast))]
