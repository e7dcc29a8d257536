"""``anabranch start``: hands a job over to a coordinator, whose containers run it; or lets a stopped one go on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from anabranch import artifact
from anabranch import config as configuration
from anabranch.cli import finding, loading, preparation, progress, waiting
from anabranch.cli.loading import JobFile
from anabranch.cli.preparation import Prepared
from anabranch.config import Settings
from anabranch.coordinator.client import Client
from anabranch.errors import ConflictError, JobFailedError, NotFoundError
from anabranch.formats import Format
from anabranch.messages import Program
from anabranch.model.job_model import JobModel


def start(
    job: Annotated[str, typer.Argument(help="The job file; or the name of a job, to let it go on.")],
    coordinator: Annotated[str | None, typer.Option(help="Its URL; default: [coordinator] url.")] = None,
    config: Annotated[Path | None, typer.Option(help="The configuration file.")] = None,
    available_now: Annotated[
        bool, typer.Option("--available-now", help="End when the inputs are read to their present ends.")
    ] = False,
    timeout: Annotated[float, typer.Option(help="Seconds to wait until it runs.")] = 300.0,
    detach: Annotated[bool, typer.Option("--detach", help="Don't wait.")] = False,
) -> None:
    """Start a job on a coordinator, and wait until it runs. Ctrl-C ends only the waiting."""
    if job.endswith(".py"):
        settings = preparation.settings_of(Path(job), config)
        file = loading.load(Path(job))
        name = file.graph.job
        with finding.at(settings, coordinator) as client:
            _hand_over(client, file, settings, available_now)
            _wait(client, name, timeout, detach)
        return
    with finding.at(configuration.load(config), coordinator) as client:
        number = client.resume(job)
        progress.say(f"job {job}: goes on with deployment {number}")
        _wait(client, job, timeout, detach)


def _hand_over(client: Client, file: JobFile, settings: Settings, available_now: bool) -> None:
    from anabranch.spark import resolution

    name = file.graph.job
    kept = configuration.dumped(settings)
    plan = preparation.plan(file, settings, _known_model(client, name))
    known = set(client.known_lanes(name))
    preparation.check_writers(plan, settings, known)
    if known:
        preparation.check_outputs(plan, settings)
    formats = preparation.formats(file, settings, _kept_formats(client, name), register=True)
    schemas = preparation.checked(file, settings, formats)
    for warning in plan.warnings:
        progress.say(f"warning: {warning}")
    sha256 = _code(client, file.path.parent, in_image=settings.job.artifact == "image")
    prepared = Prepared(file, settings, plan, schemas, formats)
    if not known:
        preparation.create_outputs(plan, settings)
    preparation.prepare_tables(prepared, create=not known)
    program = Program(
        artifact=sha256,
        file=file.path.name,
        settings=kept,
        schemas=resolution.dumped(schemas),
        cores=preparation.cores(plan, settings),
    )
    number = client.start(preparation.start_message(prepared, available_now, program))
    progress.say(f"job {name}: deployment {number} is with the coordinator at {client.url}")


def _code(client: Client, home: Path, in_image: bool) -> str:
    """Hand over the job's code, unless containers have it already; gives its hash."""
    if in_image:
        return artifact.fingerprint(home)
    code = artifact.pack(home)
    client.put_artifact(code.sha256, code.content)
    return code.sha256


def _known_model(client: Client, job: str) -> JobModel | None:
    try:
        return client.model(job)
    except NotFoundError:
        return None


def _kept_formats(client: Client, job: str) -> Mapping[str, Format]:
    try:
        return client.running(job).formats
    except (NotFoundError, ConflictError):
        return {}


def _wait(client: Client, job: str, timeout: float, detach: bool) -> None:
    if detach:
        return
    status = waiting.until(client, job, {"running", "stopping", "stopped", "failed"}, timeout)
    if status.state == "failed":
        raise JobFailedError(f"job {job} failed: {status.error}")
    progress.say(f"job {job}: {status.state}")
