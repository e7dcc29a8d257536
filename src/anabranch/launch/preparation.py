"""Prepares a job for its start: plans it, and lets Spark determine the schemas."""

from __future__ import annotations

import importlib
import secrets
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from anabranch import config, import_errors
from anabranch.config import Settings
from anabranch.errors import ConfigError, ConflictError
from anabranch.event_time import durations
from anabranch.formats import Format, settling
from anabranch.grouping import expansion, groupers
from anabranch.grouping.request import Grouper
from anabranch.launch import fingerprint
from anabranch.launch.loading import JobFile
from anabranch.model.factor import check_factor
from anabranch.model.graph import Graph
from anabranch.model.job_model import JobModel, Matched
from anabranch.planning import patterns, stages
from anabranch.planning import plan as planning
from anabranch.planning.assignment import assignment_settings
from anabranch.planning.plan import Plan
from anabranch.planning.real_time import RealTime
from anabranch.protocol.deployment import Program, StartBasis, StartRequest
from anabranch.systems.systems import Systems

if TYPE_CHECKING:
    from anabranch.spark.query.plan import LoadedJob


@dataclass(frozen=True)
class Prepared:
    """A job that can be started: it is planned, and the schema of each operator's result is known.

    Attributes:
        schemas: the schemas of the operators' results, by the operator's id.
        formats: the formats of the job's streams. Streams that are missing here contain JSON.
        known: the streams and tables that the job wrote before, as returned by
            :func:`anabranch.launch.outputs.checked`. None if the job starts anew, or
            another version of it is about to be deployed; missing outputs are then created.
    """

    file: JobFile
    settings: Settings
    plan: Plan
    schemas: Mapping[int, Any]
    formats: Mapping[str, Format]
    known: Collection[str] | None = None

    def loaded(self, spark: Any) -> LoadedJob:
        """The job, ready for lanes to run it in a Spark session."""
        from anabranch.spark.query.plan import LoadedJob

        file = self.file
        return LoadedJob(spark, self.settings, file.graph, file.functions, self.schemas, self.formats, file.home)


def settings_of(job: Path, file: Path | None) -> Settings:
    """The settings for the job file ``job``, after all checks that don't require loading the job file. ``file`` is the
    configuration file; None to look for it.
    """
    settings = config.load(file, beside=job)
    check_factor(settings.job.factor)
    if ":" not in settings.job.grouper:
        groupers.named(settings.job.grouper)
    return settings


def plan(
    file: JobFile,
    settings: Settings,
    known: JobModel | None = None,
    kept: JobModel | None = None,
    replaces: bool = False,
) -> Plan:
    """Plan the job for the streams as they are now.

    Args:
        known: the model of the job's current generation; None for a new job. The model says which streams the job has
            read through patterns, and how many partitions each stream had when state was first written.
        kept: for a start after a drain, the drained job's model. The plan has the same factor and number of containers.
        replaces: whether this version replaces the running one. An input that is bound to a pattern and already has
            streams gets no new streams if ``replaces`` is true or ``kept`` is given.

    Raises:
        ConfigError: a setting is wrong, or contradicts the graph.
        GraphError: the graph can't be run as it is written.
        NotFoundError: a stream that the job reads doesn't exist.
        AnabranchError: a system doesn't answer, or a stream that matches a pattern can't be described.
    """
    systems = Systems(settings, file.graph.job)
    lives = stages.systems(file.graph, systems.bound(), systems.default)
    patterns.check(file.graph, settings.patterns)
    check_tables(file.graph, systems)
    tables = {each.to for each in settings.outputs.values()}
    read = {(lives[s], s) for s in stages.read_streams(file.graph) if s in lives and s not in settings.patterns}
    read |= {(each.system, s) for each in patterns.of_model(known).values() for s in each.streams} if known else set()
    counts = {
        name: systems.counts(name, (stream for system, stream in read if system == name))
        for name in sorted(set(lives.values()) - tables)
    }
    new = not replaces and kept is None
    for name, pattern in settings.patterns.items():
        if name in lives and (new or known is None or name not in patterns.of_model(known)):
            systems.check_matches(Matched(system=lives[name], pattern=pattern, streams=()))
    matched = patterns.found(file.graph, settings.patterns, lives, counts, known, new)
    lives |= {stream: each.system for each in matched.values() for stream in each.streams}
    _check_topics(file.graph, systems, lives, matched)
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
        real_time=_real_time(settings, systems),
        lanes=settings.job.lanes,
        bases=_bases(known),
        placement=planning.Placement(
            rules=assignment_settings.rules(settings.assignment),
            racks=settings.assignment.racks,
            replicas=systems.racks(f"{name}/{s}" for s, name in sorted(lives.items())) if racked else {},
        ),
    )
    return planning.make(file.graph, around)


def check_tables(graph: Graph, systems: Systems) -> None:
    """Raises ConfigError if the settings bind an input to a table, or bind the dead-letter stream of an input to a
    table. Also raises ConfigError if the settings of a table that the job writes are wrong. Raises NotFoundError if a
    stream that the job joins as a table doesn't exist.
    """
    for stream in stages.read_streams(graph):
        if systems.is_table(stream) or systems.is_table(stages.dead_letters_of(stream)):
            what = "reads" if systems.is_table(stream) else "puts dead letters aside in"
            name = stream if systems.is_table(stream) else stages.dead_letters_of(stream)
            raise ConfigError(
                f"the job {what} {name!r}, which is a table: outputs.{name}", "only a stream can be that; take it out"
            )
    for stream in stages.written_streams(graph):
        if systems.is_table(stream):
            systems.table(stream)
    for stream in stages.table_streams(graph):
        systems.of(stream).partitions(stream)


def _check_topics(graph: Graph, systems: Systems, lives: Mapping[str, str], matched: Mapping[str, Matched]) -> None:
    read = {*stages.read_streams(graph), *stages.intermediate_streams(graph)} - matched.keys()
    read |= {stream for each in matched.values() for stream in each.streams}
    used = {*read, *stages.written_streams(graph)} & lives.keys()
    systems.check_topics({stream: lives[stream] for stream in used}, read)


def _bases(known: JobModel | None) -> dict[str, int]:
    stages_of = () if known is None else known.stages
    counts = {name: count for each in stages_of for name, count in expansion.base_partitions(each).items()}
    return {name.split("/")[1]: count for name, count in counts.items()}


def _real_time(settings: Settings, systems: Systems) -> RealTime | None:
    job = settings.job
    if job.trigger != "real-time":
        return None
    able = {system.name for system in systems.all if system.real_time}
    interval = durations.parse(job.interval) / 1000
    return RealTime(job.on_error, job.on_null_key, job.watermark_scope, able, interval)


def cores(plan: Plan, settings: Settings) -> int:
    """How many Spark tasks each container of the job must be able to run at the same time; 0 unless the job has the
    real-time trigger.
    """
    return planning.task_slots(plan.lanes, settings.job.state_partitions) if settings.job.trigger == "real-time" else 0


def formats(
    file: JobFile, settings: Settings, kept: Mapping[str, Format] = {}, register: bool = False
) -> dict[str, Format]:
    """The formats of the job's streams; see :func:`anabranch.formats.settling.settled`."""
    read, written = stages.read_streams(file.graph), stages.written_streams(file.graph)
    return settling.settled(settings, read, written, kept, register)


def resolved(file: JobFile, formats: Mapping[str, Format], settings: Settings) -> Mapping[int, Any]:
    """The schema of each operator's result, which Spark determines from empty DataFrames."""
    from anabranch.spark.query import resolution

    return resolution.columns(file.graph, file.functions, formats, file.home, settings.outputs)


def checked(
    file: JobFile, settings: Settings, formats: Mapping[str, Format], say: Callable[[str], None]
) -> Mapping[int, Any]:
    """Like :func:`resolved`, but uses a small Spark session that is started for this purpose."""
    from anabranch.spark.session import session

    say("checking schemas with Spark ...")
    spark = session.for_schemas(settings, file.home)
    try:
        return resolved(file, formats, settings)
    finally:
        session.stop(spark)


def start_message(
    prepared: Prepared,
    until_caught_up: bool,
    program: Program | None = None,
    reset_state: bool = False,
    settings: Settings | None = None,
    own_program: Program | None = None,
    expect: StartBasis | None = None,
) -> StartRequest:
    """The request to a coordinator to start the job. The lanes in the request have new ids.

    Args:
        until_caught_up: whether the job ends when it has caught up.
        program: what containers need to run the job; None if the job runs in this process.
        reset_state: whether a drained job begins without state.
        settings: the settings from which the job's fingerprint is made; None for the settings with which the job was
            planned. The two can differ, because a version that replaces a running one is planned with the running job's
            factor and number of containers.
        own_program: for a job that runs in this process, the stored code and settings; see
            :attr:`StartRequest.own_program`.
        expect: the job's last deployment for which the start was planned; None if no other process can have changed the
            job since then.
    """
    lanes = planning.lanes_of(prepared.plan, prepared.settings.job.state_partitions, lambda: secrets.token_hex(4))
    return StartRequest(
        graph=prepared.file.graph,
        model=prepared.plan.model,
        lanes=lanes,
        fingerprint=fingerprint.of(prepared.file.graph, prepared.plan, settings or prepared.settings, prepared.known),
        formats=dict(prepared.formats),
        promises={output.operator: output.promise for output in prepared.plan.outputs},
        until_caught_up=until_caught_up,
        program=program,
        own_program=own_program,
        settings=prepared.settings.model_dump(mode="json", exclude_unset=True) if program is None else {},
        reset_state=reset_state,
        expect=expect,
    )


def _grouper(name: str) -> Grouper:
    if ":" not in name:
        return groupers.named(name)
    module, _, function = name.partition(":")
    cure = "write module:function; the module lies beside the job"
    try:
        found = getattr(importlib.import_module(module), function)
    except (Exception, SystemExit) as error:  # a user's module may raise anything
        raise ConfigError(f"grouper {name!r} can't be imported: {import_errors.reason(error)}", cure) from error
    if not callable(found):
        raise ConfigError(f"grouper {name!r} is {found!r}, not a function", cure)
    return cast(Callable[..., Any], found)


def check_reset(job: str, reset_state: bool, drained: bool) -> None:
    """Raises ConflictError if the caller asks to drop the state (``reset_state``), but the job wasn't drained."""
    if reset_state and not drained:
        raise ConflictError(
            f"job {job!r} was not drained: its state can't be reset", f"drain it first: anabranch drain {job}"
        )


def refuse_several(settings: Settings) -> None:
    """Raises ConfigError if the settings ask for several containers, because ``run`` has only one process."""
    if settings.job.containers > 1:
        raise ConfigError(
            f"[job] containers = {settings.job.containers}, and this is one process",
            "set containers = 1; or start the job on a coordinator: anabranch start JOB.py",
        )
