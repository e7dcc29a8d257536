"""``anabranch plan``: what a job would be: stages, tasks, lanes, containers, reads per SSP, promises."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.table import Table

from anabranch.cli import loading, preparation, progress
from anabranch.planning.plan import Plan


def plan(
    job: Annotated[Path, typer.Argument(help="The job file.")],
    config: Annotated[Path | None, typer.Option(help="The configuration file.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what running a job would do; changes nothing."""
    settings = preparation.settings_of(job, config)
    file = loading.load(job)
    made = preparation.plan(file, settings)
    formats = preparation.formats(file, settings)
    preparation.checked(file, settings, formats)
    if json:
        typer.echo(msgspec.json.format(msgspec.json.encode(made.to_builtins()), indent=2).decode())
        return
    _print(made)


def _print(made: Plan) -> None:
    console = progress.wide()
    model = made.model
    console.print(f"job {model.job}: factor {model.factor}, {len(model.containers)} container(s)")
    for stage in model.stages:
        key = ", ".join(stage.key) or "the message key"
        kind = "stateful" if stage.stateful else "stateless"
        console.print(
            f"\nstage {stage.stage}: key {key}; {kind}; grouper {stage.grouper}; reads {', '.join(stage.inputs)}"
        )
        for task in stage.tasks:
            console.print(f"  {task.name}: {' '.join(str(s) for s in (*task.ssps, *task.broadcast))}", highlight=False)
    lanes = Table(title="lanes", title_justify="left")
    for column in ("stage", "container", "runs", "operators", "tasks", "SSPs"):
        lanes.add_column(column)
    for lane in made.lanes:
        operators = ", ".join(lane.operators)
        read = {ssp.whole for ssp in lane.ssps}
        lanes.add_row(lane.stage, lane.seat, lane.group, operators, str(len(lane.tasks)), str(len(read)))
    outputs = Table(title="outputs", title_justify="left")
    for column in ("operator", "stream", "promise"):
        outputs.add_column(column)
    for output in made.outputs:
        outputs.add_row(output.operator, output.stream or "-", output.promise)
    console.print(lanes, outputs)
    console.print(
        "reads per SSP: " + ", ".join(f"{ssp} {n}x" for ssp, n in made.reads_per_ssp.items()), highlight=False
    )
    for warning in made.warnings:
        console.print(f"warning: {warning}")
