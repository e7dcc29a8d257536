"""``anabranch run``: runs a job in this process, with a coordinator and one container."""

from __future__ import annotations

import os
import socket
import threading
import uuid
from contextlib import AbstractContextManager, ExitStack, closing, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from prometheus_client.core import Metric

from anabranch import logs, metrics
from anabranch.cli import options, progress, stopping, tables
from anabranch.cli.takeover import Takeover
from anabranch.config import Settings, secrets
from anabranch.config.storage import local_folder
from anabranch.coordinator.api import dashboard, listening, token_file
from anabranch.coordinator.api.audit import Audit, AuditTrail
from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.leadership import endpoint
from anabranch.coordinator.lineage_source import ServedJobs
from anabranch.coordinator.store.store import Store
from anabranch.coordinator.store.sweep_schedule import Retain
from anabranch.coordinator.streams.input_monitor import InputMonitor
from anabranch.errors import AnabranchError, ConflictError, JobFailedError
from anabranch.formats import Format
from anabranch.launch import loading, local_store, outputs, preparation
from anabranch.launch.loading import JobFile
from anabranch.launch.own_program import PackedCode
from anabranch.launch.preparation import Prepared
from anabranch.model.deployment_state import DeploymentState
from anabranch.planning.plan import Plan
from anabranch.protocol.container import Registration
from anabranch.protocol.deployment import StartRequest
from anabranch.protocol.status import JobStatus
from anabranch.systems.folders import writable
from anabranch.systems.systems import Systems
from anabranch.telemetry import exporting, lineage

if TYPE_CHECKING:
    from anabranch.cli.replacing import Replacer

_RESET_STATE, _DROP_STATE = "--reset-state", "--drop-state"


def run(
    job: Annotated[Path, typer.Argument(help="The job file.")],
    available_now: Annotated[
        bool, typer.Option("--available-now", help="Exit when the inputs have been read up to their current ends.")
    ] = False,
    reset_state: Annotated[
        bool, typer.Option(_RESET_STATE, help="After a drain: start without the state that the job has kept.")
    ] = False,
    drop_state: Annotated[
        list[str] | None,
        typer.Option(
            _DROP_STATE, help="After a change: an operator that the job no longer has, and whose state may be dropped."
        ),
    ] = None,
    config: options.Config = None,
) -> None:
    """Run a job here: coordinator and container in one process.

    If the job has changed since it last ran, the new version takes over its positions and state, or the command says
    what prevents this.
    """
    from anabranch.cli import replacing
    from anabranch.container.restarts import ProcessBrokenError

    replacer = replacing.Replacer()
    settings = preparation.settings_of(job, config)
    file = loading.load(job)
    try:
        execute(file, settings, available_now, None, reset_state, replacer, tuple(drop_state or ()))
    except ProcessBrokenError as broken:
        replacer.in_order(broken.restarts)


def execute(
    file: JobFile,
    settings: Settings,
    available_now: bool,
    show: tables.Show | None = None,
    reset_state: bool = False,
    replacer: Replacer | None = None,
    drop_state: tuple[str, ...] = (),
) -> JobStatus:
    """Run a loaded job to its end, and return its last status.

    Args:
        available_now: whether the job ends when its inputs have been read up to their current end offsets.
        show: returns what to draw below the table of lanes.
        reset_state: whether a drained job begins without state.
        replacer: replaces this process if necessary; by default, it is never replaced.
        drop_state: the operators whose state may be dropped if the job has changed.

    Raises:
        AnabranchError: the job failed, or can't be started.
        ProcessBrokenError: the job can continue only in a new process, and ``replacer`` can start one.
        KeyboardInterrupt: after SIGINT. Lanes that are running end first.
        typer.Exit: after SIGTERM, if the job hasn't been started.
    """
    from anabranch.cli import replacing

    replacer = replacer or replacing.Replacer(may=False)
    store_url, name = settings.coordinator.store, file.graph.job
    logs.bind(job=name)
    _check_process(settings)
    with stopping.Signals(name, replacer) as signals, endpoint.RunLock(store_url, name), ExitStack() as served:
        plan, drained = _planned(file, settings, reset_state)
        store = Store(store_url)
        retain, links = Retain.of(settings.coordinator), settings.coordinator.links
        coordinator = Coordinator(store, systems=Systems(settings, name), retain=retain, links=links)
        known, formats = _checked(file, settings, plan, coordinator, drained)
        takeover = Takeover(store, coordinator, file, settings, PackedCode(file.path.parent), drop_state)
        changed = takeover.is_due(plan, known)
        if drop_state and not changed:
            progress.say(f"no state is dropped ({_DROP_STATE}): the job hasn't changed since it last ran")
        from anabranch.container import executors
        from anabranch.spark.session import java_program

        java_program.resolve()
        printed = endpoint.run_folder(store_url) / f"{name}.spark.log"
        progress.say(f"starting Spark for job {name} (output of Spark and of functions goes to {printed}) ...")
        cores = preparation.cores(plan, settings)
        try:
            with replacer.session(settings, file.home, printed, cores, threading.Event()) as spark:
                signals.listen()
                executors.ready(spark, settings, file.graph, cores, progress.say)
                prepared = takeover.deploy() if changed else _prepared(file, settings, plan, formats, known)
                takeover.close_former(prepared, changed, endpoint.run_folder(store_url) / f"{name}.former.log")
                _start(coordinator, takeover.message(prepared, available_now, reset_state), signals)
                replacer.is_done(_RESET_STATE)
                requests = token_file.sibling(token_file.of(settings.coordinator), ".audit")
                trail = served.enter_context(closing(Audit(requests, lambda event: store.note([event]))))
                served.enter_context(exporting.traces(name, progress.say))
                served.enter_context(_measured(coordinator, name))
                served.enter_context(lineage.reported(ServedJobs(coordinator), progress.say))
                with InputMonitor(coordinator):
                    return _serve(prepared, coordinator, spark, show, served, replacer, signals, printed, trail)
        finally:
            served.close()
            store.close()


def _check_process(settings: Settings) -> None:
    """Raises AnabranchError if this process can't write where lanes write, or if the settings ask for several
    containers."""
    if (root := local_folder(settings.storage.root)) is not None:
        writable(root, "storage root")
    for folder in (folder for system in Systems(settings).all for folder in system.folders()):
        writable(folder.path, folder.label)
    preparation.refuse_several(settings)


def _planned(file: JobFile, settings: Settings, reset_state: bool) -> tuple[Plan, bool]:
    """The plan, and whether the job was drained or reset. The caller holds the job's lock, so the job stays as it is.
    Raises AnabranchError if the job can't be started here.
    """
    name = file.graph.job
    model, drained = local_store.present_model(settings.coordinator.store, name)
    preparation.check_reset(name, reset_state, drained)
    if model is not None and len(model.containers) > 1:
        raise ConflictError(
            f"job {name!r} has {len(model.containers)} containers, and this is one process",
            f"on its coordinator, run it in one container first: anabranch scale {name} --containers 1",
        )
    kept = model if drained else None
    progress.kept(settings, kept)
    progress.shared(settings.coordinator.store)
    return preparation.plan(file, settings, model, kept), drained


def _checked(
    file: JobFile, settings: Settings, plan: Plan, coordinator: Coordinator, drained: bool
) -> tuple[set[str] | None, dict[str, Format]]:
    """The streams and tables that the job wrote before (None if the job starts anew), and the formats of its streams.

    Raises AnabranchError if the store can't be read, if a stream that the job wrote before is gone, if an output
    contains records of an unknown lane, or if a format can't be determined.
    """
    name = file.graph.job
    lanes, formats = coordinator.known_lanes(name), coordinator.known_formats(name)
    known = outputs.checked(plan, settings, lanes, drained)
    return known, preparation.formats(file, settings, {} if drained else formats, register=True)


def _prepared(
    file: JobFile, settings: Settings, plan: Plan, formats: dict[str, Format], known: set[str] | None
) -> Prepared:
    """Everything that is needed to start the job. Creates missing outputs if the job starts anew, and checks tables."""
    prepared = Prepared(file, settings, plan, preparation.resolved(file, formats, settings), formats, known)
    for warning in plan.warnings:
        progress.say(f"warning: {warning}")
    if known is None:
        outputs.create(plan, settings)
    outputs.prepare_tables(prepared)
    return prepared


def _start(coordinator: Coordinator, request: StartRequest, signals: stopping.Signals) -> None:
    """Start the job. From then on, a signal stops the job; until then, it leaves the job stopped."""
    try:
        coordinator.start(request)
        signals.serve(coordinator)
    except KeyboardInterrupt:
        with suppress(AnabranchError):  # it hasn't been started
            coordinator.stop(request.graph.job)
        raise


def _serve(
    prepared: Prepared,
    coordinator: Coordinator,
    spark: Any,
    show: tables.Show | None,
    served: ExitStack,
    replacer: Replacer,
    signals: stopping.Signals,
    printed: Path,
    trail: AuditTrail,
) -> JobStatus:
    """Serve and run the job, and return its last status. Soon after the job has ended, the coordinator's HTTP server
    refuses new requests. The server itself is closed only when the caller closes ``served``, after stopping Spark.
    Traces of failures are appended to ``printed``.
    """
    from anabranch.container.reconciler import Container
    from anabranch.container.restarts import ProcessBrokenError

    name = prepared.file.graph.job
    server = listening.serve(coordinator, token=_token(prepared.settings), trail=trail)
    served.callback(server.close)
    endpoint.write(prepared.settings.coordinator.store, name, server.url)
    progress.say(f"look at it in a browser: anabranch dashboard {name} ({server.url}{dashboard.PATH})")
    over = threading.Event()
    shown = threading.Thread(target=tables.watch, args=(coordinator, name, over, show), daemon=True)
    shown.start()
    try:
        container = Container(
            prepared.loaded(spark),
            coordinator,
            replaced=replacer.restarts if replacer.is_possible else None,
            trace=partial(append_trace, printed),
        )
        replacer.take_lanes(
            lambda: container.batches, lambda: coordinator.status(name).state == DeploymentState.STOPPING
        )
        try:
            container.run(_registration(name))
        except ProcessBrokenError:
            if signals.received is None and coordinator.status(name).state.runs:
                raise
            progress.say("no new process follows: the job is to stop")
        status = coordinator.status(name)
        coordinator.reader_positions.settle(name)
    finally:
        over.set()
        shown.join(2)
        signals.job_ended()
        endpoint.remove(prepared.settings.coordinator.store, name)
        server.end()
    progress.summary(status)
    if status.state == DeploymentState.FAILED:
        raise JobFailedError(f"job {name} failed: {status.error}")
    return status


def _measured(coordinator: Coordinator, name: str) -> AbstractContextManager[None]:
    def collect() -> list[Metric]:
        return metrics.families([coordinator.status(name)], coordinator.membership.invalid_heartbeats)

    return exporting.metrics(name, collect, progress.say)


def append_trace(printed: Path, lane: str, error: BaseException) -> None:
    """Append the trace of a lane's failure to ``printed``. The trace can contain anything, even names that aren't
    UTF-8.
    """
    from anabranch.spark import root_cause

    with printed.open("a", encoding="utf-8", errors="backslashreplace") as file:
        file.write(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} lane {lane} failed:\n{root_cause.text_of(error)}\n")


def _token(settings: Settings) -> str:
    """The token with which other processes ask for the job's status or stop the job."""
    given = settings.coordinator.token
    if given is not None:
        return secrets.resolved("coordinator.token", given)
    return token_file.made(token_file.of(settings.coordinator))


def _registration(job: str) -> Registration:
    execution = os.environ.get("EXECUTION_ENV_CONTAINER_ID") or uuid.uuid4().hex
    return Registration(job=job, seat="0", execution=execution, host=socket.gethostname(), pid=os.getpid())
