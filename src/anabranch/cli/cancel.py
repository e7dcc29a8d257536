"""``anabranch cancel``: lets a job go back from the change or the drain that is under way."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from anabranch import config as configuration
from anabranch.cli import connect, progress, scale


def cancel(
    job: Annotated[str, typer.Argument(help="The job's name.")],
    timeout: Annotated[float, typer.Option(help="Seconds to wait for it.")] = 300.0,
    detach: Annotated[bool, typer.Option("--detach", help="Don't wait.")] = False,
    config: Annotated[Path | None, typer.Option(help="The configuration file.")] = None,
) -> None:
    """Let a job that is being changed, or drains, go back to what it was, and wait for it. Ctrl-C ends only the
    waiting."""
    with connect.client(configuration.load(config).coordinator, job) as client:
        client.cancel(job)
        if not detach:
            scale.wait(client, job, timeout)
        model = client.model(job)
    now = f"factor {model.factor}, {len(model.containers)} container(s), generation {model.generation}"
    progress.say(f"job {job}: {'goes back to ' if detach else ''}{now}")
