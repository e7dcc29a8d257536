"""What plan and run have in common: a job file, its settings, Spark for the schemas, and the plan."""

from __future__ import annotations

import hashlib
import importlib
import secrets
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import msgspec

from anabranch import config
from anabranch.cli import progress
from anabranch.cli.loading import JobFile
from anabranch.config import Settings
from anabranch.coordinator import plans, queries
from anabranch.coordinator.store import Store, address
from anabranch.errors import AnabranchError, ConfigError, ConflictError, NotFoundError, StateError
from anabranch.formats import Format, settling
from anabranch.grouping import expansion, groupers
from anabranch.grouping.request import Grouper
from anabranch.messages import Program, Start
from anabranch.model.factor import check_factor
from anabranch.model.graph import Graph
from anabranch.model.job_model import JobModel
from anabranch.planning import patterns, placing, stages
from anabranch.planning import plan as planning
from anabranch.planning.plan import Plan
from anabranch.planning.real_time import RealTime
from anabranch.systems.systems import Systems


@dataclass(frozen=True)
class Prepared:
    """A job that can be run: planned, with the schema after each operator."""

    file: JobFile
    settings: Settings
    plan: Plan
    schemas: Mapping[int, Any]
    formats: Mapping[str, Format]


def settings_of(job: Path, file: Path | None) -> Settings:
    """The settings for a job file, checked as far as they can be without it."""
    settings = config.load(file, beside=job)
    check_factor(settings.job.factor)
    if ":" not in settings.job.grouper:
        groupers.named(settings.job.grouper)
    return settings


def known_model(store_url: str, job: str) -> tuple[JobModel | None, bool]:
    """The present generation of a job that a store on this machine knows, and whether it was drained."""
    if address.is_on_server(store_url):
        return None, False
    try:
        store = Store.open_existing(store_url)
    except NotFoundError:
        return None, False
    try:
        return queries.model(store, job), queries.deployment(store, job).state == "drained"
    except NotFoundError:
        return None, False
    finally:
        store.close()


def plan(
    file: JobFile,
    settings: Settings,
    known: JobModel | None = None,
    kept: JobModel | None = None,
    replaces: bool = False,
) -> Plan:
    """Plan the job on the streams as they are now. ``known``: what it has been so far; ``kept``: what was drained, and
    has its factor and containers still. ``replaces``: it takes the place of what runs, with the streams of that."""
    systems = Systems(settings, file.graph.job)
    lives = stages.systems(file.graph, systems.bound(), systems.default)
    patterns.check(file.graph, settings.patterns)
    _check_tables(file.graph, systems)
    tables = {each.to for each in settings.outputs.values()}
    counts = {name: systems.named(name).counts() for name in sorted(set(lives.values()) - tables)}
    new = not replaces and kept is None
    matched = patterns.found(file.graph, settings.patterns, lives, counts, known, new)
    lives |= {stream: each.system for each in matched.values() for stream in each.streams}
    racked = bool(settings.assignment.racks) or settings.assignment.strategy != "none"
    around = planning.Surroundings(
        factor=settings.job.factor if kept is None else kept.factor,
        containers=settings.job.containers if kept is None else len(kept.containers),
        grouper_name=settings.job.grouper,
        grouper=_grouper(settings.job.grouper),
        partitions={s: counts[name][s] for s, name in lives.items() if name in counts and s in counts[name]},
        systems=systems.bound(),
        default_system=systems.default,
        patterns=matched,
        at_least_once=settings.at_least_once,
        real_time=_real_time(settings),
        lanes=settings.job.lanes,
        bases=_bases(known),
        rules=placing.rules(settings.assignment),
        racks=settings.assignment.racks,
        replicas=systems.racks(f"{name}/{s}" for s, name in sorted(lives.items())) if racked else {},
    )
    return planning.make(file.graph, around)


def _check_tables(graph: Graph, systems: Systems) -> None:
    """Raises ConfigError where settings bind something to a table that no table can be, or are wrong for it; and
    NotFoundError where a stream isn't there that is a table to the job."""
    read, written = _streams(graph)
    for stream in read:
        if systems.is_table(stream) or systems.is_table(stages.dead_letters_of(stream)):
            what = "reads" if systems.is_table(stream) else "puts dead letters aside in"
            name = stream if systems.is_table(stream) else stages.dead_letters_of(stream)
            raise ConfigError(
                f"the job {what} {name!r}, which is a table: outputs.{name}", "only a stream can be that; take it out"
            )
    for stream in written:
        if systems.is_table(stream):
            systems.table(stream)
    for stream in _tables_of(graph):
        systems.of(stream).partitions(stream)


def _bases(known: JobModel | None) -> dict[str, int]:
    stages_of = () if known is None else known.stages
    counts = {name: count for each in stages_of for name, count in expansion.base_partitions(each).items()}
    return {name.split("/")[1]: count for name, count in counts.items()}


def _real_time(settings: Settings) -> RealTime | None:
    job = settings.job
    return RealTime(job.on_error, job.on_null_key, job.watermark_scope) if job.trigger == "real-time" else None


def cores(plan: Plan, settings: Settings) -> int:
    """How many tasks must be able to run at once (0: any number will do)."""
    return planning.task_slots(plan, settings.job.state_partitions) if settings.job.trigger == "real-time" else 0


def formats(
    file: JobFile, settings: Settings, kept: Mapping[str, Format] = {}, register: bool = False
) -> dict[str, Format]:
    """The formats of the job's streams; see :func:`anabranch.formats.settling.settled`."""
    read, written = _streams(file.graph)
    return settling.settled(settings, read, written, kept, register)


def _streams(graph: Graph) -> tuple[list[str], list[str]]:
    """The streams that a job reads and writes, without those between its stages."""
    read, written = ([node.args["stream"] for node in graph.nodes if node.kind == kind] for kind in ("read", "write"))
    return [*read, *_tables_of(graph)], written


def _tables_of(graph: Graph) -> list[str]:
    """The streams that are tables to a job."""
    return [node.args["of"]["stream"] for node in graph.nodes if "of" in node.args]


def resolved(file: JobFile, formats: Mapping[str, Format]) -> Mapping[int, Any]:
    """The schema after each operator, found by Spark on empty frames."""
    from anabranch.spark import resolution

    return resolution.columns(file.graph, file.functions, formats)


def checked(file: JobFile, settings: Settings, formats: Mapping[str, Format]) -> Mapping[int, Any]:
    """As :func:`resolved`, in a small session that is made for it."""
    from anabranch.spark import session

    progress.say("checking schemas with Spark ...")
    spark = session.for_schemas(settings, file.home)
    try:
        return resolved(file, formats)
    finally:
        session.stop(spark)


def check_reset(job: str, reset_state: bool, drained: bool) -> None:
    """Raises ConflictError if state is to go of a job that wasn't drained."""
    if reset_state and not drained:
        raise ConflictError(
            f"job {job!r} was not drained: its state can't be reset", f"drain it first: anabranch drain {job}"
        )


def say_kept(settings: Settings, kept: JobModel | None) -> None:
    """Say that a job which was drained keeps its factor and containers, if settings say others."""
    if kept is None:
        return
    wanted = settings.job.factor, settings.job.containers
    has = kept.factor, len(kept.containers)
    if wanted != has:
        progress.say(
            f"job {kept.job} keeps factor {has[0]} and {has[1]} container(s), and settings say {wanted[0]} and "
            f"{wanted[1]}: anabranch scale {kept.job} changes them"
        )


def start_message(
    prepared: Prepared,
    until_caught_up: bool,
    program: Program | None = None,
    reset_state: bool = False,
    settings: Settings | None = None,
) -> Start:
    """The hand-over to the coordinator, with new lane ids.

    Args:
        settings: what the job is to have, if it was planned with others.
    """
    lanes = planning.lanes_of(prepared.plan, prepared.settings.job.state_partitions, lambda: secrets.token_hex(4))
    return Start(
        graph=prepared.file.graph,
        model=prepared.plan.model,
        lanes=lanes,
        fingerprint=_fingerprint(prepared, settings or prepared.settings),
        formats=dict(prepared.formats),
        promises={output.operator: output.promise for output in prepared.plan.outputs},
        until_caught_up=until_caught_up,
        program=program,
        settings=prepared.settings.model_dump(mode="json", exclude_unset=True) if program is None else {},
        reset_state=reset_state,
    )


def create_outputs(plan: Plan, settings: Settings) -> None:
    """Make the streams that a new job writes and that don't exist."""
    systems = Systems(settings, plan.model.job)
    for output in plan.outputs:
        if output.stream is not None and not systems.is_table(output.stream):
            systems.named(str(output.system)).create(output.stream, output.partitions, output.intermediate)


def prepare_tables(prepared: Prepared, create: bool) -> None:
    """See that the tables that a job writes take its rows. ``create``: the job is new: make those that aren't there.

    Raises:
        NotFoundError: one isn't there.
        ConflictError: one has other columns.
    """
    from anabranch.spark import tables
    from anabranch.spark.labels import label

    graph = prepared.file.graph
    systems = Systems(prepared.settings, graph.job)
    for node in graph.nodes:
        if node.kind == "write" and systems.is_table(node.args["stream"]):
            schema = tables.schema_of(prepared.schemas[node.inputs[0]], label(node))
            systems.table(node.args["stream"]).prepare(schema, create)


def check_outputs(plan: Plan, settings: Settings, known: Collection[str] | None = None) -> None:
    """Refuse to go on with a job one of whose output streams is gone: of all, or of those that are known of it.

    Raises:
        StateError: names the stream.
    """
    systems = Systems(settings, plan.model.job)
    streams = [o for o in plan.outputs if o.stream is not None and not systems.is_table(o.stream)]
    streams = [o for o in streams if known is None or o.stream in known]
    there = {name: systems.named(name).streams() for name in sorted({str(o.system) for o in streams})}
    gone = next((o for o in streams if o.stream not in there[str(o.system)]), None)
    if gone is not None:
        raise StateError(
            f"the output stream {gone.stream!r} of job {plan.model.job!r} is gone from "
            f"{systems.named(str(gone.system))}",
            "restore it; or, to begin afresh, give the job another name",
        )


def check_writers(plan: Plan, settings: Settings, known: set[str]) -> None:
    """Refuse to start where the streams know more of this job than its store does.

    Raises:
        StateError: an output holds records of a lane that the store has never heard of.
    """
    systems = Systems(settings, plan.model.job)
    written: dict[str, list[str]] = {}
    for output in plan.outputs:
        if output.stream is not None:
            written.setdefault(str(output.system), []).append(output.stream)
    for name, streams in written.items():
        for lane, where in systems.writers(name, plan.model.job, streams).items():
            if lane in known:
                continue
            raise StateError(
                f"{where} holds records that lane {lane} of job {plan.model.job!r} wrote, but the store "
                f"{address.shown(settings.coordinator.store)} doesn't know that lane",
                "restore the store; or, to begin afresh, remove the job's output streams or give the job another name",
            )


def _fingerprint(prepared: Prepared, settings: Settings) -> dict[str, str]:
    """What must be the same for a job to go on where it was. Line numbers and function bodies may change."""
    graph = prepared.file.graph
    operators = {f"operator {node.name}": _digest([node.kind, list(node.inputs), node.args]) for node in graph.nodes}
    job = settings.job
    ssps = {ssp.whole for stage in prepared.plan.model.stages for t in stage.tasks for ssp in (*t.ssps, *t.broadcast)}
    streams = Counter(f"{ssp.system}/{ssp.stream}" for ssp in ssps)
    matched = patterns.of_model(prepared.plan.model)
    come = {f"{each.system}/{stream}" for each in matched.values() for stream in each.streams}
    counts = {f"{plans.PARTITIONS}{stream}": str(count) for stream, count in streams.items() if stream not in come}
    systems = Systems(settings, graph.job)
    declared = settling.declared(settings, {stream for way in _streams(graph) for stream in way})
    written = [(str(o.system), o.stream) for o in prepared.plan.outputs if o.stream is not None]
    its = [(name, stream) for name, stream in written if not systems.is_table(stream)]
    there = {name: systems.named(name).streams() for name, _ in its}
    outputs = {
        f"output stream {stream}": systems.named(name).id(stream) if stream in there[name] else ""
        for name, stream in its
    }
    tables = {f"table {stream}": systems.table(stream).id() for _, stream in written if systems.is_table(stream)}
    return {
        **operators,
        **counts,
        **{f"pattern of {name}": f"{each.pattern} in {each.system}" for name, each in matched.items()},
        **outputs,
        **tables,
        **{f"delivery of {stream}": "at-least-once" for _, stream in written if stream in settings.at_least_once},
        **{f"format of {stream}": told for stream, told in declared.items()},
        **({"trigger": job.trigger} if job.trigger != "micro-batch" else {}),
        "factor": str(job.factor),
        "grouper": job.grouper,
        "containers": str(job.containers),
        **({"lanes": str(job.lanes)} if job.lanes > 1 else {}),
        "state_partitions": str(job.state_partitions),
        "watermark_scope": job.watermark_scope,
    }


def _digest(value: Any) -> str:
    return hashlib.sha256(msgspec.json.encode(value, order="sorted")).hexdigest()[:12]


def _grouper(name: str) -> Grouper:
    if ":" not in name:
        return groupers.named(name)
    module, _, function = name.partition(":")
    try:
        return cast(Callable[..., Any], getattr(importlib.import_module(module), function))
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"grouper {name!r} can't be imported: {error}",
            "write module:function; the module lies beside the job",
        ) from error


def refuse_several(settings: Settings) -> None:
    """Raises ConfigError for a job of several containers, where there is one process."""
    if settings.job.containers > 1:
        raise ConfigError(
            f"[job] containers = {settings.job.containers}, and this is one process",
            "set containers = 1; or start the job on a coordinator: anabranch start JOB.py",
        )


def writable(folder: Path, what: str) -> None:
    """Raises AnabranchError if the folder can't be made or written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".anabranch-writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise AnabranchError(
            f"the {what} {folder} can't be written: {error.strerror or error}",
            "choose another folder in anabranch.toml, or change its owner or mode",
        ) from error
