"""``anabranch start``: hands a job over to a coordinator, for containers to run, or continues a job that the
coordinator knows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from anabranch import config as configuration
from anabranch.cli import connect, options, progress, waiting
from anabranch.config import Settings
from anabranch.config.secrets import without_passwords
from anabranch.coordinator.api.client import Client
from anabranch.errors import ConflictError, JobFailedError, NotFoundError, UsageError
from anabranch.formats import Format
from anabranch.job_code import artifact, packed_modules
from anabranch.job_code.artifact import Artifact
from anabranch.launch import loaded_code, loading, outputs, preparation
from anabranch.launch.loading import JobFile
from anabranch.launch.preparation import Prepared
from anabranch.model.deployment_state import DeploymentState
from anabranch.model.job_model import JobModel
from anabranch.protocol.deployment import Program, StartBasis


def start(
    job: Annotated[str, typer.Argument(help="The job file, or the name of a job to continue.")],
    coordinator: options.Url = None,
    config: options.Config = None,
    available_now: Annotated[
        bool,
        typer.Option("--available-now", help="End the job when the inputs have been read up to their current ends."),
    ] = False,
    reset_state: Annotated[
        bool, typer.Option("--reset-state", help="After a drain: start without the state that the job has kept.")
    ] = False,
    timeout: Annotated[float, typer.Option(help="How many seconds to wait until the job runs.")] = 300.0,
    detach: options.Detach = False,
) -> None:
    """Start a job on a coordinator, and wait until it runs. Ctrl-C stops only the waiting."""
    if job.endswith(".py"):
        settings = preparation.settings_of(Path(job), config)
        file = loading.load(Path(job))
        name = file.graph.job
        with connect.at(settings, coordinator) as client:
            _hand_over(client, file, settings, available_now, reset_state)
            wait(client, name, timeout, detach)
        return
    if available_now:
        raise UsageError("--available-now needs the job's file", f"anabranch start JOB.py --available-now, not {job}")
    if reset_state:
        raise UsageError("--reset-state needs the job's file", f"anabranch start JOB.py --reset-state, not {job}")
    with connect.at(configuration.load(config), coordinator) as client:
        number = client.resume(job)
        progress.say(f"job {job}: continues with deployment {number}")
        wait(client, job, timeout, detach)


def _hand_over(client: Client, file: JobFile, settings: Settings, available_now: bool, reset_state: bool) -> None:
    model, basis = _last_deployment(client, file.graph.job)
    drained = basis.over is not None
    preparation.check_reset(file.graph.job, reset_state, drained)
    prepared = prepare(client, file, settings, model, drained)
    hand_over(client, ready(prepared, settings), available_now, reset_state, basis)


def prepare(client: Client, file: JobFile, settings: Settings, model: JobModel | None, drained: bool) -> Prepared:
    """Plan a job, check its outputs, and return everything that is needed to start it. ``model`` is the job's current
    model, if there is one. ``drained`` says whether the job was drained or reset.
    """
    name = file.graph.job
    progress.kept(settings, model if drained else None)
    plan = preparation.plan(file, settings, model, model if drained else None)
    known = outputs.checked(plan, settings, client.known_lanes(name), drained)
    formats = preparation.formats(file, settings, {} if drained else _kept_formats(client, name), register=True)
    schemas = preparation.checked(file, settings, formats, progress.say)
    prepared = Prepared(file, settings, plan, schemas, formats, known)
    for warning in plan.warnings:
        progress.say(f"warning: {warning}")
    return prepared


@dataclass(frozen=True)
class Ready:
    """A prepared job whose outputs exist. ``code`` is the job's packed code, which is still to be handed over; None if
    containers get the code from their image.
    """

    prepared: Prepared
    program: Program
    code: Artifact | None


def ready(prepared: Prepared, settings: Settings) -> Ready:
    """Pack a prepared job's code, create missing streams and tables, and check the tables. Raises the errors of
    :func:`packed` and :func:`outputs.prepare_tables`.
    """
    sha256, code = packed(prepared, settings)
    made = program(prepared, settings, sha256)
    if prepared.known is None:
        outputs.create(prepared.plan, settings)
    outputs.prepare_tables(prepared)
    return Ready(prepared, made, code)


def hand_over(client: Client, job: Ready, available_now: bool, reset_state: bool, basis: StartBasis) -> int:
    """Hand over the job's code and start the job. Returns the deployment's number. Raises ConflictError if the job's
    last deployment isn't ``basis``, for which the start was planned.
    """
    name = job.prepared.file.graph.job
    put(client, job.code)
    message = preparation.start_message(job.prepared, available_now, job.program, reset_state, expect=basis)
    number = client.start(message)
    progress.say(f"job {name}: deployment {number} is with the coordinator at {without_passwords(client.url)}")
    return number


def program(prepared: Prepared, settings: Settings, sha256: str) -> Program:
    """What containers need to run a job with these settings, which can differ from those with which the job was
    planned. ``sha256`` is the hash of the job's code.
    """
    from anabranch.spark.query import resolution

    return Program(
        artifact=sha256,
        file=prepared.file.path.name,
        settings=configuration.dumped(settings),
        schemas=resolution.dumped(prepared.schemas),
        cores=preparation.cores(prepared.plan, settings),
    )


def packed(prepared: Prepared, settings: Settings) -> tuple[str, Artifact | None]:
    """The hash of the job's code, and the packed code. The packed code is None if containers get it from their image.
    Raises ConflictError if the code was changed after the job was loaded, and UsageError if the packed code lacks a
    module of the job.
    """
    home = prepared.file.path.parent
    code = None if settings.job.artifact == "image" else artifact.pack(home)
    sha256 = artifact.fingerprint(home) if code is None else code.sha256
    if (file := loaded_code.changed(home, code)) is not None:
        raise ConflictError(
            f"{file} was changed after the job was loaded, so its new text wasn't checked; nothing was handed over",
            "run the command again",
        )
    if code is not None:
        packed_modules.check(home, code)
    return sha256, code


def put(client: Client, code: Artifact | None) -> None:
    """Hand over a job's packed code, if there is any."""
    if code is not None:
        client.put_artifact(code.sha256, code.content)


def _last_deployment(client: Client, job: str) -> tuple[JobModel | None, StartBasis]:
    """The model of a job's current generation (None if the job is new or was reset), and the deployment for which the
    job's start is planned.
    """
    try:
        status = client.status(job)
        state = status.state
        basis = StartBasis(deployment=status.deployment, over=state if state.is_over else None)
        return None if state is DeploymentState.RESET else client.model(job), basis
    except NotFoundError:
        return None, StartBasis()


def _kept_formats(client: Client, job: str) -> Mapping[str, Format]:
    try:
        return client.running(job).formats
    except (NotFoundError, ConflictError):
        return {}


def wait(client: Client, job: str, timeout: float, detach: bool) -> None:
    """Wait until a job isn't starting or changing any more, unless ``detach``. Raises JobFailedError if the job has
    failed, and the errors of :func:`waiting.until`.
    """
    if detach:
        return
    status = waiting.until(client, job, waiting.SETTLED, timeout)
    if status.state == DeploymentState.FAILED:
        raise JobFailedError(f"job {job} failed: {status.error}")
    progress.say(f"job {job}: {status.state}")
