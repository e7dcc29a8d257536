"""Determines whether a version of a job can continue with the state and the positions of the running version."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from anabranch.errors import ConflictError, UsageError
from anabranch.model.graph import Graph, Node
from anabranch.operators import rule
from anabranch.operators.rules import is_boundary, outlives_drain
from anabranch.planning import stages
from anabranch.planning.fingerprints import DELIVERY, FORMAT, OUTPUT, PARTITIONS, PATTERN, TABLE
from anabranch.planning.stages import Stage

__all__ = ["Comparison", "Reason", "Version", "check", "compared", "unkept"]

DRAIN = "drain the job, and start the new version then: anabranch deploy JOB.py --drain"

_NAME = re.compile(r"[a-z_][a-z0-9_]*")
_OF_STREAMS = (OUTPUT, TABLE, DELIVERY, FORMAT, PATTERN)
_OF_RESULT = frozenset({"limit_per_key", "schema"})
"""Arguments of operators that determine the operator's result, but not the form of the operator's state."""
_OF_STATE = ("state_partitions", "watermark_scope", "trigger")


@dataclass(frozen=True)
class Version:
    """A version of a job.

    Attributes:
        schemas: maps the id of each operator, as text, to the columns of the operator's rows, in Spark's JSON.
    """

    graph: Graph
    schemas: Mapping[str, str]
    fingerprint: Mapping[str, str]

    def columns(self, node_id: int) -> dict[str, str]:
        """The types of the columns of an operator's rows, by name."""
        told = self.schemas.get(str(node_id))
        fields = [] if told is None else msgspec.json.decode(told)["fields"]
        return {each["name"]: _text(each["type"]) for each in fields}


@dataclass(frozen=True)
class Reason:
    """Why a version can't follow the running version, and what to do."""

    what: str
    cure: str = DRAIN


@dataclass(frozen=True)
class Comparison:
    """The result of comparing two versions.

    Attributes:
        reasons: why the new version can't follow without a drain; empty if it can.
        notes: messages for the user about changes to the job's inputs, outputs and state.
        dropped: the operators of the running version whose state is dropped.
    """

    reasons: tuple[Reason, ...] = ()
    notes: tuple[str, ...] = ()
    dropped: tuple[str, ...] = field(default=())


def check(found: Comparison, job: str) -> None:
    """Raise ConflictError if the new version can't follow the running one without a drain. The error names all
    reasons."""
    if found.reasons:
        raise ConflictError(
            f"the new version of job {job!r} can't continue from the current one: "
            + "; ".join(reason.what for reason in found.reasons),
            "; or: ".join(dict.fromkeys(reason.cure for reason in found.reasons)),
        )


def compared(
    before: Version, after: Version, *, factor: int, containers: int, drop_state: Collection[str] = ()
) -> Comparison:
    """Compare two versions, and find what prevents ``after`` from following ``before`` without a drain.

    Function bodies aren't compared, because they can change freely.

    Args:
        before: the running version.
        after: the new version.
        factor: the running job's current factor, which can differ from the factor in its settings.
        containers: the running job's current number of containers.
        drop_state: operators of ``before`` whose state may be dropped.

    Raises:
        UsageError: an operator in ``drop_state`` keeps no state in ``before``, or also keeps state in ``after``.
    """
    state = _Stateful(before, after, drop_state)
    reasons = [
        *_settings(before, after, factor, containers, bool(state.olds)),
        *_streams(before, after),
        *state.reasons(),
        *_boundaries(before, after),
    ]
    return Comparison(tuple(dict.fromkeys(reasons)), (*_moved(before, after), *state.notes()), state.dropped)


def unkept(before: Version, after: Version, names: Collection[str]) -> tuple[str, ...]:
    """Why operators of ``after`` can't keep the state that the drained version ``before`` left, as texts; empty if they
    can.

    Args:
        names: the operators of ``after`` that would keep the state of the operators with the same names.
    """
    state = _Stateful(before, after, ())
    return tuple(what for name in names for what in state.unkept(name))


def _settings(before: Version, after: Version, factor: int, containers: int, stateful: bool) -> Iterator[Reason]:
    old, new = before.fingerprint, after.fingerprint
    for name, current, verb in (("factor", factor, "--factor"), ("containers", containers, "--containers")):
        if new.get(name) not in (old.get(name), str(current)):
            yield Reason(
                f"its settings say {name} {new.get(name)}, but the job has {name} {current}",
                f"set [job] {name} = {current}, and change it afterwards: anabranch scale JOB {verb} {new.get(name)}",
            )
    if old.get("grouper") != new.get("grouper"):
        yield Reason(f"the grouper changes from {old.get('grouper')} to {new.get('grouper')}")
    for name in _OF_STATE if stateful else ():
        if old.get(name) != new.get(name):
            yield Reason(
                f"{name} changes from {old.get(name, 'micro-batch')} to {new.get(name, 'micro-batch')}, and the job "
                "keeps state",
                f"set [job] {name} as it was",
            )


def _streams(before: Version, after: Version) -> Iterator[Reason]:
    """A reason for each difference in a stream or a table that both versions name. Two versions of an input are
    compared by system, by pattern, and by whether the input is broadcast. Two versions of an output are compared by
    identity and by promise. The formats of all streams are compared, too, and so are the systems of intermediate
    streams.
    """
    old, new = _homes(before), _homes(after)
    for stream in sorted(old.keys() & new.keys()):
        if old[stream] != new[stream]:
            yield Reason(f"stream {stream!r} is read from {new[stream]}, and was read from {old[stream]}")
    reads = [_reads(version.graph) for version in (before, after)]
    for stream in sorted(reads[0].keys() & reads[1].keys()):
        was, now = (" and ".join(sorted(each[stream])) for each in reads)
        if was != now:
            yield Reason(f"stream {stream!r} is read {now}, and was read {was}")
    common = _named(before.graph) & _named(after.graph)
    for stream in sorted(common):
        for what in _OF_STREAMS:
            name = f"{what}{stream}"
            if before.fingerprint.get(name) != after.fingerprint.get(name):
                told = before.fingerprint.get(name, "none"), after.fingerprint.get(name, "none")
                yield Reason(f"{name} changes ({told[0]} → {told[1]})")


def _homes(version: Version) -> dict[str, str]:
    named = [name.removeprefix(PARTITIONS) for name in version.fingerprint if name.startswith(PARTITIONS)]
    return {stream: system for system, stream in (each.split("/", 1) for each in named)}


def _reads(graph: Graph) -> dict[str, set[str]]:
    """How a version reads each of its streams, as text: as a broadcast, by partition, or both."""
    found: dict[str, set[str]] = {}
    for node in graph.nodes:
        if node.kind == "read":
            how = "as a broadcast" if node.args.get("broadcast") else "by partition"
            found.setdefault(str(node.args["stream"]), set()).add(how)
    return found


def _named(graph: Graph) -> set[str]:
    return {str(node.args["stream"]) for node in graph.nodes if "stream" in node.args}


def _boundaries(before: Version, after: Version) -> Iterator[Reason]:
    """The reasons why intermediate streams prevent the new version from following. The new version reads records that
    the running version has written, so these records must have the form that the new version expects.
    """
    old = {node.name: node for node in before.graph.nodes if is_boundary(node)}
    new = {node.name: node for node in after.graph.nodes if is_boundary(node)}
    for name, node in old.items():
        if name not in new:
            twin = next((n for n in new.values() if n.name not in old and _same(n, node)), None)
            if twin is not None:
                yield _renamed(node, twin, "the content of its stream")
            else:
                yield Reason(f"partition_by {name!r} is gone, but its stream may still contain records")
            continue
        other = new[name]
        if node.args["columns"] != other.args["columns"]:
            yield Reason(
                f"partition_by {name!r} ({other.where}) is by {', '.join(other.args['columns'])}, and was by "
                f"{', '.join(node.args['columns'])}"
            )
        if node.args.get("partitions") != other.args.get("partitions"):
            yield Reason(
                f"partition_by {name!r} ({other.where}) has partitions={other.args.get('partitions')}, and had "
                f"{node.args.get('partitions')}"
            )
        layout = f"{OUTPUT}{stages.stream_of(after.graph, other)}"
        if layout not in before.fingerprint:
            yield Reason(f"the layout of intermediate streams has changed: {layout.removeprefix(OUTPUT)} is new")
        changes = _changes(before.columns(node.id), after.columns(other.id))
        if changes:
            yield Reason(
                f"the intermediate stream of partition_by {name!r} ({other.where}) has other columns: {changes}"
            )
        if _feeding(before.graph, node) != _feeding(after.graph, other):
            yield Reason(f"partition_by {name!r} ({other.where}) now follows other stateful operators")


def _feeding(graph: Graph, node: Node) -> set[str]:
    """The names of the stateful operators that precede a boundary in its stage."""
    stage = next(s for s in stages.cut(graph) if node in s.sinks)
    return {n.name for n in stages.upstream(graph, stage, node) if rule(n).stateful}


class _Stateful:
    """The stateful operators of both versions, by name."""

    def __init__(self, before: Version, after: Version, drop: Collection[str]) -> None:
        self._before, self._after = before, after
        self.olds = {node.name: node for node in before.graph.nodes if rule(node).stateful}
        self._news = {node.name: node for node in after.graph.nodes if rule(node).stateful}
        gone = [name for name in self.olds if name not in self._news]
        wrong = next((name for name in drop if name not in gone), None)
        if wrong is not None:
            raise UsageError(
                f"the state of {wrong!r} can't be dropped: "
                + ("the new version has it" if wrong in self._news else "the job has no such operator with state"),
                f"operators whose state can be dropped: {', '.join(gone) or 'none'}",
            )
        self.dropped = tuple(name for name in gone if name in drop)
        self._gone = [name for name in gone if name not in drop]

    def reasons(self) -> Iterator[Reason]:
        for name in self._gone:
            node = self.olds[name]
            twin = next((n for n in self._news.values() if n.name not in self.olds and _same(n, node)), None)
            if twin is not None:
                yield _renamed(node, twin, "its state")
            else:
                yield Reason(
                    f"{node.kind} {name!r} keeps state, and the new version doesn't have it",
                    f"allow its state to be dropped: --drop-state {name}",
                )
        for name, node in self._news.items():
            if name in self.olds:
                yield from self._differences(self.olds[name], node)

    def notes(self) -> Iterator[str]:
        for name in self.dropped:
            yield f"the state of {name} is dropped"
        for name in self._news:
            if name not in self.olds:
                yield f"{name} begins without state, at the current positions"

    def unkept(self, name: str) -> Iterator[str]:
        """Why an operator can't keep the state that a drain left, as texts."""
        if name in self.olds and name in self._news:
            yield from self._changed(self.olds[name], self._news[name], drained=True)

    def _differences(self, old: Node, new: Node) -> Iterator[Reason]:
        cure = DRAIN
        if outlives_drain(new) and any(self.unkept(new.name)):
            cure = f"write another name= there, so that it begins without state, and add --drop-state {old.name}"
        for what in self._changed(old, new):
            yield Reason(what, cure)

    def _changed(self, old: Node, new: Node, drained: bool = False) -> Iterator[str]:
        """What prevents the operator ``new`` from taking over the state of ``old``, as texts. With ``drained``, the
        state is what a drain left. This state doesn't depend on how the operator's stage reads its inputs. The state of
        a ``process`` consists of what the processor declares.
        """
        label = f"{new.kind} {new.name!r} ({new.where})"
        names = {*old.args, *new.args} - (_OF_RESULT if drained else set())
        differing = sorted(name for name in names if _differs(name, old, new))
        if old.kind != new.kind or differing:
            what = f"was {old.kind}" if old.kind != new.kind else f"differs in its {' and '.join(differing)}"
            yield f"the state of {label} has changed: the operator {what}"
            return
        before, after = (_stage_of(v.graph, n) for v, n in ((self._before, old), (self._after, new)))
        keys = [self._key(*each) for each in ((self._before, before, old), (self._after, after, new))]
        if keys[0] != keys[1]:
            yield f"the stage key of {label} is {_listed(keys[1])}, and was {_listed(keys[0])}"
        read = [_sources(before), _sources(after)]
        if read[0] != read[1] and not drained:
            yield f"the stage of {label} reads {_sourced(read[1])}, and read {_sourced(read[0])}"
        if drained and new.kind == "process":
            return
        used = _changes(self._used(self._before, old), self._used(self._after, new), common=True)
        made = _changes(self._before.columns(old.id), self._after.columns(new.id))
        if used or made:
            yield f"the columns of the state of {label} have changed: {used or made}"

    def _key(self, version: Version, stage: Stage, node: Node) -> tuple[tuple[str, str], ...]:
        names = stages.key_columns(version.graph, stage)[node.inputs[0]].columns
        columns = version.columns(node.inputs[0])
        return tuple((name, columns.get(name, "")) for name in names)

    def _used(self, version: Version, node: Node) -> dict[str, str]:
        """Maps the names of some of an operator's input columns to their types. Only the columns that occur in the
        operator's arguments, and the event-time column of the first input, are included.
        """
        text = msgspec.json.encode(node.args).decode().lower()
        words = {*_NAME.findall(text), stages.event_times(version.graph)[node.inputs[0]].column.lower()}
        columns = {name: kind for i in node.inputs for name, kind in version.columns(i).items()}
        return {name: kind for name, kind in columns.items() if name.lower() in words or f"`{name.lower()}`" in text}


def _differs(name: str, old: Node, new: Node) -> bool:
    """Whether an argument differs. The order of an operator's aggregates counts, because Spark keeps them in it."""
    both = old.args.get(name), new.args.get(name)
    return both[0] != both[1] or (name == "aggregates" and [*(both[0] or ())] != [*(both[1] or ())])


def _same(one: Node, other: Node) -> bool:
    return (one.kind, one.args) == (other.kind, other.args)


def _renamed(old: Node, new: Node, what: str) -> Reason:
    return Reason(
        f"{new.kind} {new.name!r} ({new.where}) was called {old.name!r}, and {what} belongs to that name",
        f"write name={old.name!r} there",
    )


def _stage_of(graph: Graph, node: Node) -> Stage:
    return next(stage for stage in stages.cut(graph) if node in stage.nodes)


def _sources(stage: Stage) -> list[tuple[str, bool, str, object]]:
    """The sources of a stage, in the order of the offset log. For each source: the stream or the ``partition_by``,
    whether the stream is broadcast, the event-time column, and the watermark delay.
    """
    return [
        (
            f"partition_by {n.name}" if is_boundary(n) else str(n.args["stream"]),
            bool(n.args.get("broadcast")),
            str(n.args.get("event_time", "")),
            n.args.get("watermark"),
        )
        for n in stage.sources
    ]


def _sourced(sources: Sequence[tuple[str, bool, str, object]]) -> str:
    return " and ".join(
        name
        + (" (broadcast)" if broadcast else "")
        + (f" with event_time={time!r} and a watermark of {delay} ms" if time else "")
        for name, broadcast, time, delay in sources
    )


def _moved(before: Version, after: Version) -> Iterator[str]:
    """A note for each input and output that is added or removed."""
    for kind, verb in (("read", "read"), ("write", "written")):
        old, new = ({str(n.args["stream"]) for n in v.graph.nodes if n.kind == kind} for v in (before, after))
        for stream in sorted(new - old):
            yield f"{stream} is {verb} from now on"
        for stream in sorted(old - new):
            yield f"{stream} is no longer {verb}"


def _changes(old: Mapping[str, str], new: Mapping[str, str], common: bool = False) -> str:
    """The columns whose types differ, as text. With ``common``, columns that only one version has are left out."""
    names = [name for name in {**old, **new} if not common or (name in old and name in new)]
    return ", ".join(
        f"{name} {old.get(name, 'none')} → {new.get(name, 'none')}" for name in names if old.get(name) != new.get(name)
    )


def _listed(key: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{name} {kind}".strip() for name, kind in key) or "the message key"


def _text(kind: object) -> str:
    if isinstance(kind, str):
        return kind
    found = msgspec.json.encode(kind, order="sorted").decode()
    return found if len(found) <= 200 else f"{found[:200]}…"
