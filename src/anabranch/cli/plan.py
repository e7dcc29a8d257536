"""``anabranch plan``: shows the parts of a job, or what a change would do to a running job."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from anabranch import config as configuration
from anabranch.cli import (
    assign,
    connect,
    deploy,
    drain,
    expand,
    options,
    output,
    progress,
    rewind,
    scale,
    tables,
    takeover,
    traffic,
)
from anabranch.consoles import Console
from anabranch.coordinator.api.client import Client
from anabranch.errors import UsageError
from anabranch.launch import loading, preparation
from anabranch.planning.plan import Plan
from anabranch.protocol.commands import ChangeResult, RewindResult, ScaleResult
from anabranch.protocol.status import JobStatus

_SCALE, _REWIND, _EXPAND, _ASSIGN, _DRAIN, _DEPLOY = "scale", "rewind", "expand", "assign", "drain", "deploy"
_WITHOUT_RACKS = (_REWIND, _DRAIN, _DEPLOY)
"""The changes whose plans show no traffic between racks."""


def plan(
    job: Annotated[str, typer.Argument(help="The job file; or: scale, rewind, expand, assign, drain, deploy.")],
    running: Annotated[
        str | None,
        typer.Argument(
            help="After scale, rewind, expand, assign, drain: a running job's name; after deploy: a job file.",
            show_default=False,
        ),
    ] = None,
    factor: Annotated[int | None, typer.Option(help="After scale: the new factor.")] = None,
    containers: Annotated[int | None, typer.Option(help="After scale: the new number of containers.")] = None,
    to: Annotated[str | None, typer.Option(help="After rewind: where the job would start reading.")] = None,
    state: Annotated[str | None, typer.Option(help="After rewind: what happens to state, keep or clear.")] = None,
    drop_state: Annotated[
        list[str] | None, typer.Option(help="After deploy: an operator whose state may be dropped.")
    ] = None,
    config: options.Config = None,
    json: options.Json = False,
    html: Annotated[
        Path | None,
        typer.Option(
            help="Also write an HTML page that shows the traffic between racks (not for rewind, drain and deploy)."
        ),
    ] = None,
) -> None:
    """Show what a run (plan JOB.py) or a change (plan scale JOB, for example) would do. Changes nothing.

    The changes are scale, rewind, expand, assign and drain, each followed by a job's name, and deploy JOB.py.
    """
    asked = _PlanOptions(factor, containers, to, state, tuple(drop_state or ()), config, json, html)
    if asked.drop_state and job != _DEPLOY:
        raise UsageError("--drop-state is for plan deploy", "anabranch plan deploy JOB.py --drop-state NAME")
    if html is not None and job in _WITHOUT_RACKS:
        raise UsageError(f"plan {job} shows no traffic between racks, so there is no page to write", "leave out --html")
    if html is not None and json:
        raise UsageError("plan writes either a page or JSON", "leave out --html or --json")
    change = _CHANGES.get(job)
    if change is not None:
        change(running, asked)
    elif running is not None or asked.of_scale or asked.of_rewind:
        raise _misused()
    else:
        _start(Path(job), asked)


@dataclass(frozen=True)
class _PlanOptions:
    """The options with which ``plan`` was called."""

    factor: int | None
    containers: int | None
    to: str | None
    state: str | None
    drop_state: tuple[str, ...]
    config: Path | None
    json: bool
    html: Path | None

    @property
    def of_scale(self) -> bool:
        return self.factor is not None or self.containers is not None

    @property
    def of_rewind(self) -> bool:
        return self.to is not None or self.state is not None

    def connected(self, job: str) -> Client:
        return connect.client(configuration.load(self.config).coordinator, job)


def _misused() -> UsageError:
    return UsageError(
        "plan takes one job file",
        "anabranch plan JOB.py; or: plan scale JOB --factor X; or: plan rewind JOB --to earliest",
    )


def _alone(change: str, running: str | None, asked: _PlanOptions) -> str:
    """The name of the running job, for a change that has no options. Raises UsageError if there is no name, or if
    options of another change were given."""
    if running is None or asked.of_scale or asked.of_rewind:
        raise UsageError(f"plan {change} needs the name of a job, and nothing else", f"anabranch plan {change} JOB")
    return running


def _start(job: Path, asked: _PlanOptions) -> None:
    settings = preparation.settings_of(job, asked.config)
    file = loading.load(job)
    made = preparation.plan(file, settings)
    formats = preparation.formats(file, settings)
    preparation.checked(file, settings, formats, progress.say)
    if asked.json:
        output.as_json(made)
        return
    console = tables.wide(record=asked.html is not None)
    _print(made, console)
    if asked.html is not None:
        title = f"job {made.model.job}, before it is started"
        traffic.write(asked.html, traffic.page(title, console.export_text(), None, made.traffic))


def _scale(running: str | None, asked: _PlanOptions) -> None:
    if asked.of_rewind:
        raise _misused()
    if running is None:
        raise UsageError("plan scale needs the name of a job", "anabranch plan scale JOB --factor X")
    request = scale.wished(asked.factor, asked.containers, dry=True)
    with asked.connected(running) as client:
        model, scaled, status = client.model(running), client.scale(running, request), client.status(running)
    said = f"factor {model.factor} → {scaled.factor}, {len(model.containers)} → {scaled.containers} container(s)"
    _print_change(said, scaled, status, asked)


def _assign(running: str | None, asked: _PlanOptions) -> None:
    job = _alone(_ASSIGN, running, asked)
    with asked.connected(job) as client:
        result, status = client.assign(job, assign.wished(dry=True)), client.status(job)
    _print_change(f"{result.moved} task(s) would get another container", result, status, asked)


def _expand(running: str | None, asked: _PlanOptions) -> None:
    job = _alone(_EXPAND, running, asked)
    with asked.connected(job) as client:
        result, status = client.expand(job, expand.wished(dry=True)), client.status(job)
    _print_change(expand.listed(result.partitions) or "no input has new partitions", result, status, asked)


def _drain(running: str | None, asked: _PlanOptions) -> None:
    job = _alone(_DRAIN, running, asked)
    with asked.connected(job) as client:
        status = client.status(job)
        result = client.drain(job, drain.wished(status.deployment, "planned", dry=True))
    if asked.json:
        output.as_json(result)
        return
    console = tables.wide()
    for line in drain.listed(result, status):
        console.print(line, highlight=False)


def _print_change(said: str, scaled: ScaleResult, status: JobStatus, asked: _PlanOptions) -> None:
    if asked.json:
        output.as_json(scaled)
        return
    console = tables.wide(record=asked.html is not None)
    console.print(f"job {status.job}: {said}")
    if scaled.lanes:
        _print_moves(console, scaled, status)
    else:
        console.print("nothing would change: the job is already like this")
    traffic.show(console, scaled.before, scaled.after, scaled.why_not)
    if asked.html is not None:
        title = f"job {status.job}: {said}"
        traffic.write(asked.html, traffic.page(title, console.export_text(), scaled.before, scaled.after))


def _print_moves(console: Console, scaled: ScaleResult, status: JobStatus) -> None:
    _print_lanes(console, scaled, status)
    kept = len(status.lanes) - len(scaled.closing)
    console.print(f"{kept} lane(s) keep running" if kept else "no lane keeps running")
    moved = _moved(scaled)
    console.print(
        f"{moved} lane(s) follow a lane in another container" if moved else "nothing moves to another container"
    )
    console.print(f"their output pauses for about {scaled.pause:.1f} s")
    if scaled.free:
        seats = ", ".join(scaled.free)
        console.print(f"no container has seat {seats} yet: its lanes wait until one does")


def _rewind(running: str | None, asked: _PlanOptions) -> None:
    if asked.of_scale:
        raise _misused()
    if running is None or asked.to is None:
        raise UsageError("plan rewind needs a job and --to", "anabranch plan rewind JOB --to earliest")
    request = rewind.wished(asked.to, asked.state, dry=True)
    with asked.connected(running) as client:
        rewound, status = client.rewind(running, request), client.status(running)
    if asked.json:
        output.as_json(rewound)
        return
    _print_rewind(rewound, status)


def _print_rewind(rewound: RewindResult, status: JobStatus) -> None:
    console = tables.wide()
    began = Table(title="what is read again", title_justify="left")
    for column in ("SSP", "from offset", "is at"):
        began.add_column(column)
    at: dict[str, list[int]] = {}
    for each in status.lanes:
        for ssp, offset in each.report.progress.positions.items() if each.report is not None else ():
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
    console.print(f"{left} lane(s) keep running" if left else "no lane keeps running")
    console.print(f"output pauses for about {rewound.pause:.1f} s")


def _deploy(running: str | None, asked: _PlanOptions) -> None:
    if running is None or asked.of_scale or asked.of_rewind:
        raise UsageError("plan deploy needs a job file, and nothing else", "anabranch plan deploy JOB.py")
    job = Path(running)
    settings = preparation.settings_of(job, asked.config)
    file = loading.load(job)
    in_process = connect.coordinator_url(settings.coordinator) is None
    if in_process:
        told, status = takeover.foretold(file, settings, asked.drop_state)
    else:
        with connect.at(settings, None) as client:
            prepared = deploy.planned(client, file, settings)
            told = client.deploy(file.graph.job, deploy.wished(client, prepared, settings, asked.drop_state, dry=True))
            status = client.status(file.graph.job)
    if asked.json:
        output.as_json(told)
        return
    console = tables.wide()
    console.print(f"job {status.job}: deployment {status.deployment} → {told.deployment}")
    for note in told.notes:
        console.print(note)
    _print_lanes(console, told, status)
    for lane in told.lanes:
        if lane.stateful:
            how = "begins without state" if lane.afresh or not lane.predecessors else "continues with its state"
            console.print(f"{lane.group} in container {lane.seat} {how}")
    if in_process:
        console.print("the next anabranch run does this, before it starts the new version")
        return
    started = "" if status.launching is not None else ", plus the time until you have started new containers"
    console.print(f"output pauses for about {told.pause:.1f} s{started}")


def _print_lanes(console: Console, change: ChangeResult, status: JobStatus) -> None:
    reports = {each.lane.id: each.report for each in status.lanes}
    closed = Table(title="lanes that are closed", title_justify="left")
    for column in ("lane", "stage", "container", "runs", "tasks", "last batch took"):
        closed.add_column(column)
    for lane in change.closing:
        report = reports.get(lane.id)
        took = "-" if report is None else f"{report.load.seconds:.1f} s"
        closed.add_row(lane.id, lane.stage, lane.seat, lane.group, str(len(lane.tasks)), took)
    started = Table(title="lanes that follow them", title_justify="left")
    for column in ("stage", "container", "runs", "tasks", "SSPs", "continues from"):
        started.add_column(column)
    for lane in change.lanes:
        read = {ssp.whole for ssp in lane.ssps}
        afresh = lane.afresh or (lane.rewind is not None and lane.rewind.clear)
        how = "the state of " if lane.stateful and not afresh else ""
        before = how + ", ".join(lane.predecessors)
        started.add_row(lane.stage, lane.seat, lane.group, str(len(lane.tasks)), str(len(read)), before)
    console.print(closed, started)


def _moved(scaled: ScaleResult) -> int:
    seats = {lane.id: lane.seat for lane in scaled.closing}
    return sum(any(seats.get(name) != lane.seat for name in lane.predecessors) for lane in scaled.lanes)


def _print(made: Plan, console: Console) -> None:
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
    for planned in made.outputs:
        outputs.add_row(planned.operator, planned.stream or "-", planned.promise)
    console.print(lanes, outputs)
    console.print(
        "reads per SSP: " + ", ".join(f"{ssp} {n}x" for ssp, n in made.reads_per_ssp.items()), highlight=False
    )
    traffic.show(console, None, made.traffic)
    for warning in made.warnings:
        console.print(f"warning: {warning}")


_CHANGES: dict[str, Callable[[str | None, _PlanOptions], None]] = {
    _SCALE: _scale,
    _REWIND: _rewind,
    _EXPAND: _expand,
    _ASSIGN: _assign,
    _DRAIN: _drain,
    _DEPLOY: _deploy,
}
