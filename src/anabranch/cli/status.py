"""``anabranch jobs``, ``status``, ``describe`` and ``events``: what runs, how far it is, and what happened."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.live import Live
from rich.table import Table

from anabranch import config as configuration
from anabranch.cli import connect, output, progress, tables
from anabranch.protocol.status import JobStatus

Config = Annotated[Path | None, typer.Option(help="The configuration file.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def jobs(config: Config = None, json: Json = False) -> None:
    """List the jobs of this store."""
    found = connect.jobs(configuration.load(config).coordinator)
    if json:
        typer.echo(msgspec.json.encode([_plain(status) for status in found]).decode())
        return
    table = Table()
    for column in ("job", "state", "deployment", "lanes", "served"):
        table.add_column(column)
    for status in found:
        served = "yes" if status.served else "no: nothing runs"
        table.add_row(status.job, status.state, str(status.deployment), str(len(status.lanes)), served)
    tables.wide().print(table)


def status(
    job: Annotated[str, typer.Argument(help="The job's name.")],
    watch: Annotated[bool, typer.Option("--watch", help="Go on showing, until Ctrl-C.")] = False,
    config: Config = None,
    json: Json = False,
) -> None:
    """Show a job's lanes: state, batches, rate and lag."""
    where = configuration.load(config).coordinator
    if not watch:
        _show(connect.status(where, job), json)
        return
    if json:
        while True:
            typer.echo(msgspec.json.encode(_plain(connect.status(where, job))).decode())
            time.sleep(1)
    with Live(refresh_per_second=4) as live:
        while True:
            live.update(tables.lanes(connect.status(where, job)))
            time.sleep(1)


def describe(
    job: Annotated[str, typer.Argument(help="The job's name.")],
    config: Config = None,
    json: Json = False,
) -> None:
    """Show what a job is made of: stages and tasks, containers with their lanes, and what its outputs promise."""
    found, model = connect.described(configuration.load(config).coordinator, job)
    if json:
        told = {"status": _plain(found), "model": model.to_builtins()}
        output.as_json(told)
        return
    typer.echo(
        f"job {found.job}: {found.state}, deployment {found.deployment}, generation {found.generation}, "
        f"factor {model.factor}, {found.seats} container(s) wanted"
    )
    for stage in model.stages:
        typer.echo(
            f"stage {stage.stage}: key {', '.join(stage.key) or 'the message key'}; "
            f"{'stateful' if stage.stateful else 'stateless'}; grouper {stage.grouper}; "
            f"reads {', '.join(stage.inputs)}; {len(stage.tasks)} task(s)"
        )
    held = {one.seat: line for one, line in progress.containers(found) if one.gone is None}
    for seat in model.containers:
        typer.echo(f"seat {seat.seat}: {held.get(seat.seat, 'no container has it')}")
        for lane in (lane for lane in found.lanes if lane.lane.seat == seat.seat):
            tasks = ", ".join(lane.lane.tasks)
            typer.echo(f"  lane {lane.lane.id}: {lane.lane.group}, {lane.lane.state}, epoch {lane.lane.epoch}; {tasks}")
    for one, line in progress.containers(found):
        if one.gone is not None:
            typer.echo(line)
    for operator, promise in found.promises.items():
        typer.echo(f"output {operator}: {promise}")
    _say_unserved(found)


def events(
    job: Annotated[str, typer.Argument(help="The job's name.")],
    last: Annotated[int, typer.Option(help="How many, the last ones.")] = 50,
    config: Config = None,
    json: Json = False,
) -> None:
    """Show what happened to a job: when, who did what, and why."""
    found = connect.events(configuration.load(config).coordinator, job, last)
    if json:
        typer.echo(msgspec.json.encode([event.to_builtins() for event in found]).decode())
        return
    for event in found:
        why = f": {event.why}" if event.why else ""
        typer.echo(f"{datetime.fromtimestamp(event.at, UTC):%Y-%m-%d %H:%M:%S} {event.who}: {event.what}{why}")


def _show(found: JobStatus, json: bool) -> None:
    if json:
        output.as_json(_plain(found))
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
    _say_unserved(found)


def _say_unserved(found: JobStatus) -> None:
    if not found.served:
        typer.echo("nothing runs: this is what the store holds", err=True)


def _plain(found: JobStatus) -> dict[str, object]:
    return found.to_builtins()
