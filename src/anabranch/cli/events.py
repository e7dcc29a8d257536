"""``anabranch events``: shows the history of a job."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import msgspec
import typer

from anabranch import config as configuration
from anabranch.cli import connect, options


def events(
    job: options.Job,
    last: Annotated[int, typer.Option(help="How many of the latest events to show.")] = 50,
    config: options.Config = None,
    json: options.Json = False,
) -> None:
    """Show what happened to a job: when, who did what, and why."""
    found = connect.events(configuration.load(config).coordinator, job, last)
    if json:
        typer.echo(msgspec.json.encode([event.to_builtins() for event in found]).decode())
        return
    for event in found:
        why = f": {event.why}" if event.why else ""
        typer.echo(f"{datetime.fromtimestamp(event.at, UTC):%Y-%m-%d %H:%M:%S} {event.who}: {event.what}{why}")
