"""``anabranch status``: shows the progress of a job's lanes."""

from __future__ import annotations

import time
from contextlib import nullcontext
from typing import Annotated

import msgspec
import typer
from rich.live import Live

from anabranch import config as configuration
from anabranch import consoles
from anabranch.cli import connect, options, output, progress, tables
from anabranch.config import CoordinatorSettings
from anabranch.coordinator.api.client import AWAY
from anabranch.protocol.status import JobStatus

_EVERY = 1.0
"""How many seconds ``--watch`` waits before it reads the status again."""


def status(
    job: options.Job,
    watch: Annotated[bool, typer.Option("--watch", help="Keep showing the status, until Ctrl-C.")] = False,
    config: options.Config = None,
    json: options.Json = False,
) -> None:
    """Show a job's lanes: state, batches, rate and lag."""
    where = configuration.load(config).coordinator
    found = connect.status(where, job)
    if not watch:
        _show(where, found, json)
        return
    with nullcontext() if json else Live(console=consoles.plain(), refresh_per_second=4) as live:
        while True:
            if live is None:
                typer.echo(msgspec.json.encode(found.to_builtins()).decode())
            else:
                live.update(tables.lanes(found))
            time.sleep(_EVERY)
            found = _answered(where, job)


def _answered(where: CoordinatorSettings, job: str) -> JobStatus:
    """A job's status, as soon as it can be read. If it can't be read at first, prints one message."""
    told = False
    while True:
        try:
            return connect.status(where, job)
        except AWAY as error:
            if not told:
                progress.say(f"{error.what}; trying again ...")
            told = True
            time.sleep(_EVERY)


def _show(where: CoordinatorSettings, found: JobStatus, json: bool) -> None:
    if json:
        output.as_json(found.to_builtins())
        return
    tables.wide().print(tables.table(found))
    for line in progress.batches(found):
        typer.echo(line)
    for _, line in progress.containers(found):
        typer.echo(line)
    for line in [*progress.staffing(found), *progress.standbys(found)]:
        typer.echo(line)
    if found.drain is not None:
        typer.echo(progress.draining(found))
    for warning in progress.troubles(found):
        typer.echo(f"warning: {warning}")
    if found.error:
        typer.echo(f"error: {found.error}")
    progress.unserved(where, found)
