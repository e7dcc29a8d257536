"""``anabranch plan``: what a job would be, or what a change would do to one that runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from anabranch import config as configuration
from anabranch.cli import expand, finding, loading, preparation, progress, rewind, scale
from anabranch.errors import UsageError
from anabranch.messages import JobStatus, Rewinding, Rewound, Scaled
from anabranch.planning.plan import Plan

_SCALE, _REWIND, _EXPAND = "scale", "rewind", "expand"


def plan(
    job: Annotated[str, typer.Argument(help="The job file; or: scale, rewind, expand.")],
    running: Annotated[
        str | None,
        typer.Argument(help="After scale, rewind or expand: the name of a running job.", show_default=False),
    ] = None,
    factor: Annotated[int | None, typer.Option(help="After scale: the factor that it would have.")] = None,
    containers: Annotated[int | None, typer.Option(help="After scale: how many containers it would have.")] = None,
    to: Annotated[str | None, typer.Option(help="After rewind: where it would begin again.")] = None,
    state: Annotated[str | None, typer.Option(help="After rewind: keep or clear.")] = None,
    config: Annotated[Path | None, typer.Option(help="The configuration file.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what running a job would do: plan JOB.py; or what a change would do to one that runs: plan scale JOB, plan
    rewind JOB, plan expand JOB. Changes nothing."""
    scaling, rewinding = factor is not None or containers is not None, to is not None or state is not None
    if job == _EXPAND:
        if running is None or scaling or rewinding:
            raise UsageError("plan expand needs the name of a job, and nothing else", "anabranch plan expand JOB")
        _expand(running, config, json)
        return
    if job == _SCALE and not rewinding:
        if running is None:
            raise UsageError("plan scale needs the name of a job", "anabranch plan scale JOB --factor X")
        _scale(running, factor, containers, config, json)
        return
    if job == _REWIND and not scaling:
        if running is None or to is None:
            raise UsageError("plan rewind needs a job and a place", "anabranch plan rewind JOB --to earliest")
        _rewind(running, rewind.wished(to, state, dry=True), config, json)
        return
    if running is not None or scaling or rewinding:
        raise UsageError(
            "plan takes one job file",
            "anabranch plan JOB.py; or: plan scale JOB --factor X; or: plan rewind JOB --to earliest",
        )
    settings = preparation.settings_of(Path(job), config)
    file = loading.load(Path(job))
    made = preparation.plan(file, settings)
    formats = preparation.formats(file, settings)
    preparation.checked(file, settings, formats)
    if json:
        typer.echo(msgspec.json.format(msgspec.json.encode(made.to_builtins()), indent=2).decode())
        return
    _print(made)


def _scale(job: str, factor: int | None, containers: int | None, config: Path | None, json: bool) -> None:
    wish = scale.wished(factor, containers, dry=True)
    with finding.client(configuration.load(config).coordinator, job) as client:
        model, scaled, status = client.model(job), client.scale(job, wish), client.status(job)
    said = f"factor {model.factor} → {scaled.factor}, {len(model.containers)} → {scaled.containers} container(s)"
    _print_change(said, scaled, status, json)


def _expand(job: str, config: Path | None, json: bool) -> None:
    with finding.client(configuration.load(config).coordinator, job) as client:
        told, status = client.expand(job, expand.wished(dry=True)), client.status(job)
    _print_change(expand.listed(told.partitions) or "no input has other partitions", told, status, json)


def _print_change(said: str, scaled: Scaled, status: JobStatus, json: bool) -> None:
    if json:
        typer.echo(msgspec.json.format(msgspec.json.encode(scaled.to_builtins()), indent=2).decode())
        return
    console = progress.wide()
    console.print(f"job {status.job}: {said}")
    if not scaled.lanes:
        console.print("it is so already: nothing would change")
        return
    _print_lanes(console, scaled, status)
    kept = len(status.lanes) - len(scaled.closing)
    console.print(f"{kept} lane(s) run on as they are" if kept else "no lane runs on as it is")
    moved = _moved(scaled)
    console.print(f"{moved} lane(s) follow one of another container" if moved else "nothing moves to another container")
    console.print(f"their output stands still for about {scaled.pause:.1f} s")
    if scaled.free:
        seats = ", ".join(scaled.free)
        console.print(f"no container has seat {seats} yet: what is for it stands still until one has")


def _rewind(job: str, wish: Rewinding, config: Path | None, json: bool) -> None:
    with finding.client(configuration.load(config).coordinator, job) as client:
        rewound, status = client.rewind(job, wish), client.status(job)
    if json:
        typer.echo(msgspec.json.format(msgspec.json.encode(rewound.to_builtins()), indent=2).decode())
        return
    console = progress.wide()
    began = Table(title="what is read again", title_justify="left")
    for column in ("SSP", "from offset", "is at"):
        began.add_column(column)
    at: dict[str, list[int]] = {}
    for each in status.lanes:
        for ssp, offset in each.report.positions.items() if each.report is not None else ():
            at.setdefault(ssp, []).append(offset)
    for ssp, offset in rewound.to.items():
        furthest = max(at.get(ssp, [0]))
        began.add_row(ssp, str(min(offset, furthest)), str(furthest))
    console.print(began)
    _print_lanes(console, rewound, status)
    cleared = [lane.group for lane in rewound.lanes if lane.stateful and lane.rewind is not None and lane.rewind.clear]
    kept = [lane.group for lane in rewound.lanes if lane.stateful and lane.group not in cleared]
    for groups, what in ((cleared, "is cleared"), (kept, "is kept")):
        if groups:
            console.print(f"the state of {', '.join(dict.fromkeys(groups))} {what}")
    left = len(status.lanes) - len(rewound.closing)
    console.print(f"{left} lane(s) run on as they are" if left else "no lane runs on as it is")
    console.print(f"output stands still for about {rewound.pause:.1f} s")


def _print_lanes(console: Console, change: Scaled | Rewound, status: JobStatus) -> None:
    reports = {each.lane.id: each.report for each in status.lanes}
    closed = Table(title="lanes that are closed", title_justify="left")
    for column in ("lane", "stage", "container", "runs", "tasks", "last batch took"):
        closed.add_column(column)
    for lane in change.closing:
        report = reports.get(lane.id)
        took = "-" if report is None else f"{report.seconds:.1f} s"
        closed.add_row(lane.id, lane.stage, lane.seat, lane.group, str(len(lane.tasks)), took)
    started = Table(title="lanes that follow them", title_justify="left")
    for column in ("stage", "container", "runs", "tasks", "SSPs", "goes on from"):
        started.add_column(column)
    for lane in change.lanes:
        read = {ssp.whole for ssp in lane.ssps}
        afresh = lane.rewind is not None and lane.rewind.clear
        how = "the state of " if lane.stateful and not afresh else ""
        before = how + ", ".join(lane.predecessors)
        started.add_row(lane.stage, lane.seat, lane.group, str(len(lane.tasks)), str(len(read)), before)
    console.print(closed, started)


def _moved(scaled: Scaled) -> int:
    seats = {lane.id: lane.seat for lane in scaled.closing}
    return sum(any(seats.get(name) != lane.seat for name in lane.predecessors) for lane in scaled.lanes)


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
