"""``anabranch describe``: shows the parts of a job."""

from __future__ import annotations

import typer

from anabranch import config as configuration
from anabranch.cli import connect, options, output, progress


def describe(
    job: options.Job,
    config: options.Config = None,
    json: options.Json = False,
) -> None:
    """Show the parts of a job: stages and tasks, containers with their lanes, and the promises of outputs."""
    where = configuration.load(config).coordinator
    found, model = connect.described(where, job)
    if json:
        told = {"status": found.to_builtins(), "model": model.to_builtins()}
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
        typer.echo(f"seat {seat.seat}: {held.get(seat.seat, 'not taken by any container')}")
        for lane in (lane for lane in found.lanes if lane.lane.seat == seat.seat):
            tasks = ", ".join(lane.lane.tasks)
            typer.echo(f"  lane {lane.lane.id}: {lane.lane.group}, {lane.lane.state}, epoch {lane.lane.epoch}; {tasks}")
    for one, line in progress.containers(found):
        if one.gone is not None:
            typer.echo(line)
    for operator, promise in found.promises.items():
        typer.echo(f"output {operator}: {promise}")
    progress.unserved(where, found)
