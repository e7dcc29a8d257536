"""``anabranch deploy``: replaces the running version of a job with another version. Normally, the new version takes
over the state of the running version.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from anabranch.cli import connect, drain, haste, options, output, progress, scale, start
from anabranch.cli.change_options import ChangeOptions, with_change_options
from anabranch.cli.start import Ready
from anabranch.config import Settings
from anabranch.coordinator.api.client import Client
from anabranch.errors import UsageError
from anabranch.formats import Format
from anabranch.launch import loading, next_version, preparation
from anabranch.launch.loading import JobFile
from anabranch.launch.next_version import Resolve
from anabranch.launch.preparation import Prepared
from anabranch.model.deployment_state import DeploymentState
from anabranch.model.job_model import JobModel
from anabranch.protocol.deployment import DeployRequest, DeployResult, StartBasis
from anabranch.protocol.drain import DrainMode


@with_change_options
def deploy(
    job: Annotated[Path, typer.Argument(help="The job file.")],
    coordinator: options.Url = None,
    drained: Annotated[
        bool, typer.Option("--drain", help="Drain the job first. The new version may then differ in any way.")
    ] = False,
    up_to: Annotated[str, typer.Option(help="With --drain: what the job still reads, planned or latest.")] = "planned",
    reset_state: Annotated[
        bool, typer.Option("--reset-state", help="With --drain: start the new version without any state.")
    ] = False,
    drop_state: Annotated[
        list[str] | None,
        typer.Option(
            help="Without --drain: an operator that isn't in the new version, and whose state may be dropped."
        ),
    ] = None,
    *,
    chosen: ChangeOptions,
) -> None:
    """Replace the running version of a job with another one, and wait until that is done.

    Ctrl-C stops only the waiting.
    """
    dropped = tuple(drop_state or ())
    if drained:
        _check_with_drain(chosen, dropped)
    else:
        _check_without_drain(up_to, reset_state)
    settings = preparation.settings_of(job, chosen.config)
    file = loading.load(job)
    with connect.at(settings, coordinator) as client:
        if drained:
            number = _after_drain(client, file, settings, up_to, chosen.timeout, reset_state)
            if chosen.json:
                output.as_json(DeployResult(deployment=number, version_of=number))
            return
        prepared = planned(client, file, settings)
        client.deploy(file.graph.job, wished(client, prepared, settings, dropped, dry=True))
        for warning in prepared.plan.warnings:
            progress.say(f"warning: {warning}")
        told = client.deploy(file.graph.job, wished(client, prepared, settings, dropped, now=chosen.now))
        haste.said(chosen.now)
        follow(client, file.graph.job, told, chosen.patience, chosen.json)


def _check_with_drain(chosen: ChangeOptions, drop_state: tuple[str, ...]) -> None:
    """Raises UsageError for an option that can't be used with ``--drain``."""
    if chosen.detach:
        raise UsageError("deploy --drain waits for the drain", "leave --detach out")
    if chosen.now:
        raise UsageError("deploy --drain waits for running batches", "leave --now out")
    if drop_state:
        raise UsageError(
            "deploy --drain can't drop the state of single operators",
            "leave --drop-state out; with --reset-state, the new version starts without any state",
        )


def _check_without_drain(up_to: str, reset_state: bool) -> None:
    """Raises UsageError for an option that is only for ``--drain``."""
    for name, given in (("--up-to", up_to != DrainMode.PLANNED), ("--reset-state", reset_state)):
        if given:
            raise UsageError(f"{name} is for deploy --drain", f"add --drain, or leave {name} out")


def _after_drain(
    client: Client, file: JobFile, settings: Settings, up_to: str, timeout: float, reset_state: bool
) -> int:
    """Drain a job, and start the new version. Before the drain, the new version is prepared, its code is packed, and
    its streams and tables are made, so errors are found while the old version is still running. If the job is scaled or
    expanded before the drain begins, the new version is prepared again after the drain. The code isn't handed over
    before the drain has ended, because the coordinator deletes code that no job needs. Returns the number of the new
    deployment.
    """
    name, end = file.graph.job, time.monotonic() + timeout
    model = client.model(name)
    ready = _ready(client, file, settings, model)
    told = drain.begun(client, name, up_to)
    drain.wait(client, settings.coordinator, name, timeout)
    progress.say(f"job {name}: drained, deployment {told.deployment}")
    if (last := client.model(name)) != model:
        ready = _ready(client, file, settings, last)
    basis = StartBasis(deployment=told.deployment, over=DeploymentState.DRAINED)
    number = start.hand_over(client, ready, available_now=False, reset_state=reset_state, basis=basis)
    start.wait(client, name, max(1.0, end - time.monotonic()), detach=False)
    return number


def _ready(client: Client, file: JobFile, settings: Settings, model: JobModel) -> Ready:
    """The new version, ready to start after a drain. ``model`` is the present version's model."""
    return start.ready(start.prepare(client, file, settings, model, drained=True), settings)


def planned(client: Client, file: JobFile, settings: Settings) -> Prepared:
    """See :func:`anabranch.launch.next_version.planned`."""
    formats = client.running(file.graph.job).formats
    return next_version.planned(client, file, settings, formats, resolving(settings))


def resolving(settings: Settings) -> Resolve:
    """A function that determines the schemas of a job file. For this purpose, the function starts a small Spark
    session, and tells the user so.
    """

    def resolve(file: JobFile, formats: Mapping[str, Format]) -> Mapping[int, Any]:
        return preparation.checked(file, settings, formats, progress.say)

    return resolve


def wished(
    client: Client,
    prepared: Prepared,
    settings: Settings,
    drop_state: tuple[str, ...],
    dry: bool = False,
    now: bool = False,
) -> DeployRequest:
    """The request to deploy the new version. With ``dry``, the request only asks for a plan. Otherwise, this function
    also registers schemas, creates new streams and tables, and hands over the code.
    """
    sha256 = ""
    if not dry:
        sha256, code = start.packed(prepared, settings)
        prepared = next_version.ready(prepared, settings)
        start.put(client, code)
    program = start.program(prepared, settings, sha256)
    message = preparation.start_message(prepared, False, program, settings=settings)
    return DeployRequest(start=message, drop_state=drop_state, request=uuid.uuid4().hex, dry=dry, now=now)


def follow(client: Client, job: str, told: DeployResult, timeout: float | None, json: bool) -> None:
    """Print what a deployment changes. Unless ``timeout`` is None, wait until the change is done. Raises the errors of
    :func:`scale.wait`, and ConflictError if the deployment was undone.
    """
    said = f"deployment {told.deployment}"
    said += f", of version {told.version_of} again" if told.version_of != told.deployment else ""
    for note in told.notes:
        progress.say(note)
    if told.repeated:
        progress.say(scale.REPEATED.format(job=job))
    if told.closing:
        progress.say(f"job {job}: {len(told.closing)} lane(s) are closed, {len(told.lanes)} follow")
    if timeout is not None:
        scale.wait(client, job, timeout)
        _check(client, job, told)
        said += "; all its lanes run"
    if json:
        output.as_json(told)
    progress.say(f"job {job}: {said}")


def _check(client: Client, job: str, told: DeployResult) -> None:
    """Raises ConflictError if the deployment was undone."""
    model = client.model(job)
    if model.run_id != told.deployment:
        back = f"version {model.again or model.run_id}, as deployment {model.run_id}"
        raise scale.gone_back(client, job, back)
