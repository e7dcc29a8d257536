"""``anabranch stop``: ends a job at a batch boundary; it resumes exactly there."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from anabranch import config as configuration
from anabranch.cli import finding, progress
from anabranch.coordinator import endpoint
from anabranch.errors import OutOfTimeError


def stop(
    job: Annotated[str, typer.Argument(help="The job's name.")],
    timeout: Annotated[float, typer.Option(help="Seconds to wait for it.")] = 300.0,
    detach: Annotated[bool, typer.Option("--detach", help="Don't wait.")] = False,
    config: Annotated[Path | None, typer.Option(help="The configuration file.")] = None,
) -> None:
    """Stop a running job at a batch boundary, and wait for it. Ctrl-C ends only the waiting."""
    store = configuration.load(config).coordinator.store
    with finding.client(store, job) as client:
        client.stop(job)
    if detach:
        return
    deadline = time.monotonic() + timeout
    while job in endpoint.find(store):
        if time.monotonic() > deadline:
            raise OutOfTimeError(
                f"job {job} has not stopped within {timeout:g} s",
                f"it goes on stopping; see anabranch status {job}",
            )
        time.sleep(0.2)
    progress.say(f"job {job}: {finding.status(store, job).state}")
