"""``anabranch container``: runs one process of a job, which takes a seat, or stands by for one, and runs the seat's
lanes."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
import time
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, TypeVar

import msgspec
import typer

from anabranch import cache_dir, logs, own_files
from anabranch import config as configuration
from anabranch.cli import connect, options, progress, waiting
from anabranch.cli.warm_up import WarmUp
from anabranch.clocks import boottime
from anabranch.config import Settings
from anabranch.config.storage import local_folder
from anabranch.coordinator.api.client import AWAY, Client
from anabranch.errors import AnabranchError, ConflictError, JobFailedError
from anabranch.event_time import durations
from anabranch.job_code import artifact
from anabranch.launch import loading
from anabranch.launch.loading import JobFile
from anabranch.model.deployment_state import DeploymentState
from anabranch.model.graph import Graph
from anabranch.protocol.container import NO_SEAT, Registration, RegistrationResponse
from anabranch.protocol.deployment import RunningDeployment
from anabranch.tables import opening
from anabranch.telemetry import exporting

if TYPE_CHECKING:
    from anabranch.cli.replacing import Replacer
    from anabranch.container.reconciler import Container
    from anabranch.container.restarts import Restarts

T = TypeVar("T")
_ASK_AGAIN = 0.25
STOPS_WITHIN = 60.0
_TOLD = "the container was told to end"


def container(
    job: options.Job,
    coordinator: options.Url = None,
    rack: Annotated[
        str | None,
        typer.Option(
            envvar="ANABRANCH_RACK", help="The rack, or zone, that this process is in; default: [systems.kafka] rack."
        ),
    ] = None,
    master: Annotated[str | None, typer.Option(help="Spark's master; default: [spark] master.")] = None,
    config: Annotated[Path | None, typer.Option(help="The configuration file, for [coordinator].")] = None,
    seat: Annotated[str | None, typer.Option(hidden=True, help="The seat to take.")] = None,
    lifeline: Annotated[int | None, typer.Option(hidden=True, help="A pipe whose end ends this process.")] = None,
) -> None:
    """Run the lanes that a job's coordinator assigns, until the job stops. SIGTERM and Ctrl-C give the seat back."""
    from anabranch.cli import replacing
    from anabranch.container import watchdog

    if lifeline is not None:
        watchdog.end_with(lifeline)
    replacer = replacing.Replacer()
    own = configuration.load(config)
    leaving, ended = _Leaving(replacer), threading.Event()
    watchdog.watch(lambda: _TOLD if leaving.asked() else "", ended, lambda: STOPS_WITHIN, AnabranchError.exit_code)
    with connect.at(own, coordinator) as client:
        running = leaving.unless_asked(lambda: client.running(job))
        if running is None:
            ended.set()
            leaving.check()
            return
        settings = _settings(running, master, rack or own.systems.rack)
        root = local_folder(settings.storage.root)
        if root is not None:
            with contextlib.suppress(OSError):  # the first lane will report the error
                own_files.make_folder(root)
        in_image = settings.job.artifact == "image"
        home = leaving.unless_asked(lambda: _code(client, running.program.artifact, in_image))
        if home is None:
            ended.set()
            leaving.check()
            return
        file = loading.load(home / running.program.file)
        period = durations.parse(own.coordinator.period) / 1000
        me = _registration(job, running.deployment, settings.systems.rack, seat)
        following = _run(client, running, settings, file, me, period, leaving, ended, replacer)
    if following is not None and not leaving.asked():
        replacer.in_order(following)
    leaving.check()


def _run(
    client: Client,
    running: RunningDeployment,
    settings: Settings,
    file: JobFile,
    me: Registration,
    period: float,
    leaving: _Leaving,
    ended: threading.Event,
    replacer: Replacer,
) -> Restarts | None:
    """Start Spark, and run lanes until the job has ended or the process must end. Then set ``ended``.

    Returns:
        If the lanes can continue only in a new process, the record of replacements for that process; otherwise None.
    """
    from anabranch.container import executors
    from anabranch.container.reconciler import Container
    from anabranch.container.restarts import ProcessBrokenError
    from anabranch.spark.query import resolution
    from anabranch.spark.query.plan import LoadedJob

    progress.say(f"starting Spark for a container of job {running.job} ...")
    cores = running.program.cores
    try:
        logs.bind(job=running.job)
        with (
            exporting.traces(running.job, progress.say),
            replacer.session(settings, file.home, None, cores, ended) as spark,
        ):
            leaving.listen()
            waits = partial(_wait_for_slots, client, me)
            executors.ready(spark, settings, file.graph, cores, progress.say, leaving.asked, waits)
            schemas = resolution.restored(running.program.schemas)
            made = Container(
                LoadedJob(spark, settings, file.graph, file.functions, schemas, running.formats, file.home),
                client,
                replaced=replacer.restarts if replacer.is_possible else None,
                trace=_trace,
            )
            replacer.take_lanes(lambda: made.batches)
            _serve(made, client, me, period, leaving, ended, stops_because(file.graph, settings))
    except ProcessBrokenError as broken:
        return broken.restarts
    return None


def _wait_for_slots(client: Client, me: Registration) -> None:
    """Tell the coordinator that this process is waiting for task slots of a Spark cluster. Otherwise, a change to
    another version could wait forever: the former version's lanes would keep the cluster's cores until the new
    containers are ready, and the new containers would wait for these cores. Besides, the launcher would conclude that
    this process hangs.
    """
    with contextlib.suppress(AnabranchError):  # the process's own registration will meet the error, and report it
        client.register(msgspec.structs.replace(me, seat=NO_SEAT, waits_for_slots=True, warm=False))


def _trace(lane: str, error: BaseException) -> None:
    from anabranch.spark import root_cause

    logs.say(f"lane {lane} failed:\n{root_cause.text_of(error)}", level="error")


def _code(client: Client, sha256: str, in_image: bool) -> Path:
    """The folder with the job's code. With ``in_image``, this is the working folder, and ConflictError is raised if the
    Python files there aren't those of the job.
    """
    if in_image:
        here = Path.cwd()
        if artifact.fingerprint(here) != sha256:
            raise ConflictError(
                f"the Python files below {here} aren't those that the job was started with",
                'start containers in the folder with that code; or start the job with [job] artifact = "store"',
            )
        return here
    cache = cache_dir.folder() / "artifacts"
    return artifact.unpacked(sha256, cache) or artifact.unpack(client.artifact(sha256), sha256, cache)


def _settings(running: RunningDeployment, master: str | None, rack: str | None) -> Settings:
    settings = configuration.restored(running.program.settings)
    spark, systems = settings.spark, settings.systems
    if master is not None:
        spark = spark.model_copy(update={"master": master})
    if rack is not None:
        systems = systems.with_rack(rack)
    return settings.model_copy(update={"spark": spark, "systems": systems})


def stops_because(graph: Graph, settings: Settings) -> str:
    """Why the container stops if it loses its coordinator; empty if it continues. Possible reasons are:
    ``on_coordinator_loss`` requires it, the job runs in real time, or an output can't be fenced, so records could be
    written twice.
    """
    if settings.job.on_coordinator_loss != "continue":
        return f'the job has on_coordinator_loss = "{settings.job.on_coordinator_loss}"'
    if settings.job.trigger == "real-time":
        return "the job runs in real time"
    written = {node.args["stream"] for node in graph.nodes if node.kind == "write"}
    foreign = {output for output, each in settings.outputs.items() if opening.is_foreign(each)}
    unsure = any(node.kind == "foreach_batch" for node in graph.nodes) or written & (settings.at_least_once | foreign)
    return "this container's outputs can't be fenced" if unsure else ""


def _registration(job: str, deployment: int, rack: str | None, seat: str | None) -> Registration:
    execution = os.environ.get("EXECUTION_ENV_CONTAINER_ID") or uuid.uuid4().hex
    return Registration(
        job=job,
        execution=execution,
        host=socket.gethostname(),
        pid=os.getpid(),
        instance=uuid.uuid4().hex,
        seat=seat,
        rack=rack,
        deployment=deployment,
    )


def _serve(
    made: Container,
    client: Client,
    me: Registration,
    period: float,
    leaving: _Leaving,
    ended: threading.Event,
    stops_because: str,
) -> None:
    from anabranch.container import watchdog
    from anabranch.container.heartbeats import BackgroundHeartbeats
    from anabranch.container.seat_lease import SeatLease

    asked, registered = _seated(client, me, leaving, made)
    if registered is None:
        if not leaving.asked():
            check_ended_well(client, me.job, me.deployment)
            progress.say(f"job {me.job} isn't running: nothing to do")
        return
    progress.say(f"container {registered.container}: seat {registered.seat}, lease {registered.lease:g} s")
    seat_lease = SeatLease(registered, asked, boottime, stops_because=stops_because)
    with BackgroundHeartbeats(client, seat_lease, period, progress.say) as heartbeats:
        patience = (lambda: heartbeats.lease_left) if stops_because else (lambda: STOPS_WITHIN)
        watchdog.watch(lambda: heartbeats.must_stop, ended, patience)
        made.serve(heartbeats, leaving.event)
        heartbeats.leave(made.reports)
    if not leaving.asked():
        check_ended_well(client, me.job, me.deployment)


def check_ended_well(client: Client, job: str, deployment: int) -> None:
    """Raises JobFailedError if the job is known to have failed, and ConflictError if the job has a later deployment
    that isn't stopped."""
    try:
        status = client.status(job)
    except AWAY as error:
        progress.say(f"it isn't known how job {job} ended: {error.what}")
        return
    if status.state == DeploymentState.FAILED:
        raise JobFailedError(f"job {job} failed: {status.error}")
    if status.deployment != deployment and status.state != DeploymentState.STOPPED:
        raise ConflictError(
            f"deployment {status.deployment} of job {job} follows deployment {deployment}, whose code this process has",
            "start a new process",
        )


def _seated(
    client: Client, me: Registration, leaving: _Leaving, made: Container
) -> tuple[float, RegistrationResponse | None]:
    """Wait for a seat. Meanwhile, the process stands by, warms its session and maintains standbys.

    Returns the time at which the seat was requested (see :func:`boottime`) and the coordinator's answer. Returns
    ``(0.0, None)`` if the job isn't running any more, or if the process was asked to end.
    """

    def ask() -> tuple[float, RegistrationResponse]:
        said = msgspec.structs.replace(me, copies=made.standbys.reports, warm=warming.is_done)
        return boottime(), client.register(said)

    with WarmUp(made.spark) as warming:
        while (answer := leaving.unless_asked(ask)) is not None:
            asked, registered = answer
            if registered.done:
                break
            if registered.seat is not None:
                return asked, registered
            if not warming.begun:
                progress.say(f"all seats of job {me.job} are taken: standing by")
                warming.begin()
            made.standbys.want(registered.copies)
            time.sleep(_ASK_AGAIN)
        warming.end()
    return 0.0, None


class _Leaving:
    """The first SIGINT or SIGTERM makes the container end its lanes and leave; the second ends the process at once."""

    def __init__(self, replacer: Replacer) -> None:
        self.event = threading.Event()
        self._replacer = replacer
        self._received = 0
        self.listen()

    def listen(self) -> None:
        """Handle the signals. Call this again after Spark has started, because PySpark installs a handler for SIGINT
        that cancels all of Spark's jobs.
        """
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._take)

    def asked(self) -> bool:
        return self.event.is_set()

    def unless_asked(self, ask: Callable[[], T]) -> T | None:
        """Wait for the answer to ``ask``, a request to the coordinator. Returns None instead if the process was told to
        end before the coordinator could answer."""
        try:
            return None if self.asked() else waiting.answered(ask, unless=self.asked)
        except AWAY:  # raised only if the process was told to end
            return None

    def _take(self, number: int, _frame: FrameType | None) -> None:
        if self._received:
            os._exit(128 + number)
        self._received = number
        self._replacer.told_to_end(number)
        progress.say("stopping; a second signal, such as Ctrl-C, ends the process at once ...")
        self.event.set()

    def check(self) -> None:
        """Raises KeyboardInterrupt after SIGINT."""
        if self._received == signal.SIGINT:
            raise KeyboardInterrupt
