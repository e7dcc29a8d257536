"""``anabranch status``: shows the progress of a job's lanes."""

from __future__ import annotations

import time
from typing import Annotated

import msgspec
import typer
from rich.live import Live

from anabranch import config as configuration
from anabranch.cli import connect, options, output, progress, tables
from anabranch.protocol.status import JobStatus


def status(
    job: options.Job,
    watch: Annotated[bool, typer.Option("--watch", help="Keep showing the status, until Ctrl-C.")] = False,
    config: options.Config = None,
    json: options.Json = False,
) -> None:
    """Show a job's lanes: state, batches, rate and lag."""
    where = configuration.load(config).coordinator
    if not watch:
        _show(connect.status(where, job), json)
        return
    if json:
        while True:
            typer.echo(msgspec.json.encode(connect.status(where, job).to_builtins()).decode())
            time.sleep(1)
    with Live(refresh_per_second=4) as live:
        while True:
            live.update(tables.lanes(connect.status(where, job)))
            time.sleep(1)


def _show(found: JobStatus, json: bool) -> None:
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
    progress.unserved(found)
