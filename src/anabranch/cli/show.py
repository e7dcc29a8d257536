"""``anabranch show``: shows parts of the dashboard's pages as tables."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
import typer
from rich import table as rich_table

from anabranch import config as configuration
from anabranch.cli import connect, output, progress, tables
from anabranch.cli.options import Config, Job, Json
from anabranch.coordinator.api.operations import Operations
from anabranch.model.document import Document
from anabranch.views.dead_letters import Content

app = typer.Typer(no_args_is_help=True, help="Show one part of what is known about jobs.")

Stage = Annotated[str, typer.Option(help="Only this stage.")]

T = TypeVar("T")


@app.command()
def overview(config: Config = None, json: Json = False) -> None:
    """All jobs, one line each: state, lag, rate, and the most severe finding."""
    found = connect.overview(configuration.load(config).coordinator)
    if json:
        output.as_json(found)
        return
    rows = ({**each.to_builtins(), "worst": each.worst.summary if each.worst else ""} for each in found.jobs)
    _draw(("job", "state", "factor", "seats", "containers", "lag", "rows", "arriving", "worst"), rows)


@app.command()
def live(job: Job, config: Config = None, json: Json = False) -> None:
    """The present metrics of a job's open lanes and containers."""
    found = _read(config, job, lambda asked: asked.live(job))
    if json:
        output.as_json(found)
        return
    typer.echo(f"job {job}: {found.state}, generation {found.generation}, factor {found.factor}")
    for each in (found.lanes, found.containers, found.resting, found.copies, found.stages, found.held_up):
        if each.rows:
            _draw(each.columns, each.records())


@app.command()
def partitions(
    job: Job,
    stage: Stage = "",
    lane: Annotated[str, typer.Option(help="Only this lane.")] = "",
    sort: Annotated[
        str, typer.Option(help="The column to sort by. With a minus before its name, the largest value comes first.")
    ] = "-lag",
    limit: Annotated[int, typer.Option(help="How many rows to show.")] = 100,
    config: Config = None,
    json: Json = False,
) -> None:
    """The partitions that a job reads: which ones are behind, and which ones hold event time back."""
    found = _read(config, job, lambda asked: asked.partitions(job, stage, lane, sort, 0, limit))
    if json:
        output.as_json(found)
        return
    rows = found.table.records()
    _draw(found.table.columns, ({**row, "time": progress.when(row.get("time")) or None} for row in rows))
    typer.echo(f"{len(rows):,} of {found.total:,} partitions; lag {found.totals.get('lag', 0):,} in all")


@app.command()
def placement(job: Job, stage: Stage = "", config: Config = None, json: Json = False) -> None:
    """How many buckets of each partition every container has."""
    found = _read(config, job, lambda asked: asked.placement(job, stage))
    if json:
        output.as_json(found)
        return
    rows: dict[int, dict[str, Any]] = {}
    for number, seat, buckets in found.cells.rows:
        rows.setdefault(number, {"partition": found.partitions[number]})[found.seats[seat]] = buckets
    _draw(("partition", *found.seats), rows.values())


@app.command()
def graph(
    job: Job,
    deployment: Annotated[int, typer.Option(help="The deployment's number, or 0 for the last one.")] = 0,
    config: Config = None,
    json: Json = False,
) -> None:
    """The operators of a job, by stage."""
    found = _read(config, job, lambda asked: asked.graph(job, deployment))
    if json:
        output.as_json(found)
        return
    nodes = {each.id: each for each in found.nodes}
    for stage in found.stages:
        typer.echo(f"stage {stage.stage}: reads {', '.join(stage.inputs)}; {stage.tasks} task(s)")
        for number in stage.nodes:
            typer.echo(f"  {nodes[number].kind} {nodes[number].name} {nodes[number].where}")
    for edge in found.edges:
        typer.echo(f"{edge.from_stage} → {edge.to_stage}: {edge.stream}")


@app.command()
def deployments(job: Job, config: Config = None, json: Json = False) -> None:
    """The last deployments of a job, newest first."""
    found = _read(config, job, lambda asked: asked.deployments(job))
    if json:
        typer.echo(msgspec.json.encode([each.to_builtins() for each in found]).decode())
        return
    columns = ("id", "state", "generation", "versionOf", "file", "artifact", "error")
    _draw(columns, (each.to_builtins() for each in found))


@app.command()
def changes(
    job: Job,
    limit: Annotated[int, typer.Option(help="How many of the latest to show.")] = 50,
    config: Config = None,
    json: Json = False,
) -> None:
    """The last changes to a job, with predictions and measurements."""
    found = _read(config, job, lambda asked: asked.changes(job, limit))
    if json:
        typer.echo(msgspec.json.encode([each.to_builtins() for each in found]).decode())
        return
    columns = ("generation", "kind", "who", "outcome", "predictedPause", "measuredPause", "seconds", "why", "reason")
    _draw(columns, (each.to_builtins() for each in found))


@app.command()
def moves(
    job: Job,
    deployment: Annotated[int, typer.Option(help="The deployment's number, or 0 for the last one.")] = 0,
    generation: Annotated[int, typer.Option(help="The generation's number, or 0 for the last one.")] = 0,
    config: Config = None,
    json: Json = False,
) -> None:
    """The buckets that got another container when a generation of a job began."""
    view = _read(config, job, lambda asked: asked.moves(job, deployment, generation))
    if json:
        output.as_json(view)
        return
    typer.echo(
        f"generation {view.generation} of deployment {view.deployment}, after generation {view.former[1]} "
        f"of deployment {view.former[0]}"
    )
    for stage in view.stages:
        names = {-1: None, **dict(enumerate(stage.seats))}
        rows = [
            {"partition": stage.partitions[at], "from": names[source], "to": names[target], "buckets": count}
            for at, source, target, count in stage.moves
        ]
        typer.echo(f"stage {stage.stage}: {len(stage.partitions):,} partitions of {stage.buckets} bucket(s)")
        if rows:
            _draw(("partition", "from", "to", "buckets"), rows)
        else:
            typer.echo("  nothing moved")


@app.command("lane-times")
def lane_times(
    job: Job,
    hours: Annotated[float, typer.Option(help="How many hours back.")] = 1.0,
    config: Config = None,
    json: Json = False,
) -> None:
    """When the lanes of a job ran, and what happened to them."""
    since = time.time() - 3600 * hours
    view = _read(config, job, lambda asked: asked.lane_times(job, since))
    if json:
        output.as_json(view)
        return
    rows = [
        {**lane, "predecessors": ", ".join(lane["predecessors"]), "runs": ", ".join(map(_run, lane["runs"]))}
        for lane in view.lanes.records()
    ]
    _draw(("id", "stage", "seat", "state", "factor", "epoch", "runs", "predecessors"), rows)
    for mark in view.marks.records():
        why = f": {mark['why']}" if mark["why"] else ""
        typer.echo(f"{_moment(mark['at'])} lane {mark['lane']} {mark['summary']}{why}")


def _moment(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S}"


def _run(run: Sequence[float | None]) -> str:
    begin, end = run
    return f"{_moment(begin or 0.0)} to {'now' if end is None else _moment(end)}"


@app.command()
def history(
    job: Job,
    series: Annotated[str, typer.Option(help="The names of the metrics, separated by commas.")] = "lag,rows,arriving",
    by: Annotated[str, typer.Option(help="job, stage or lane.")] = "stage",
    config: Config = None,
    json: Json = False,
) -> None:
    """A job's metrics over the last hour."""
    found = _read(config, job, lambda asked: asked.history(job, series, by))
    if json:
        output.as_json(found)
        return
    if not any(found.values.values()):
        typer.echo("no figures are known here: the coordinator that serves the job keeps them")
    for name, values in found.values.items():
        for whose, its in values.items():
            seen = [each for each in its if each is not None]
            last = f"{seen[-1]:,.1f}, from {min(seen):,.1f} to {max(seen):,.1f}" if seen else "not known"
            typer.echo(f"{name} of {by} {whose}: {last}, in {len(seen)} samples")


@app.command("dead-letters")
def dead_letters(
    job: Job,
    stream: Annotated[str, typer.Option(help="One of the job's dead-letter streams.")] = "",
    partition: Annotated[str, typer.Option(help="Only this partition.")] = "",
    before: Annotated[int, typer.Option(help="Only dead letters before this offset of the partition.")] = 0,
    limit: Annotated[int, typer.Option(help="How many of the latest to show.")] = 20,
    config: Config = None,
    json: Json = False,
) -> None:
    """The newest records that a job could not process, with their origins and the reasons."""
    found = _read(config, job, lambda asked: asked.dead_letters(job, stream, partition, before, limit))
    if json:
        output.as_json(found)
        return
    if not found.stream:
        typer.echo(f"job {job} has no dead-letter streams: see [job] on_error")
    for each in found.letters:
        origin = each.origin
        came = "" if origin is None else f" from {origin.stream}/{origin.partition}, offset {origin.offset}"
        typer.echo(f"{found.stream}/{each.partition}, offset {each.offset}: {each.operator}{came}")
        typer.echo(f"  {each.error}")
        for name, content in (("key", each.key), ("value", each.value)):
            if content is not None:
                typer.echo(f"  {name}: {content.text if content.text is not None else content.base64}")
    if found.stream and not found.letters:
        typer.echo(f"there are no dead letters in {found.stream}")


@app.command("early-output")
def early_output(
    job: Job,
    stream: Annotated[str, typer.Option(help="One of the job's output streams.")] = "",
    limit: Annotated[int, typer.Option(help="How many of the latest to show.")] = 20,
    config: Config = None,
    json: Json = False,
) -> None:
    """The rows of windows that a drain emitted early, from the newest records of one of a job's output streams."""
    view = _read(config, job, lambda asked: asked.early_output(job, stream, limit))
    if json:
        output.as_json(view)
        return
    for row in view.rows:
        texts = [_shown(content) for content in (row.key, row.value)]
        typer.echo(f"{view.stream}/{row.partition}, offset {row.offset}: {' '.join(texts)}")
    older = "; older ones weren't looked at" if view.partly else ""
    typer.echo(f"{view.total:,} of the newest {view.looked_at:,} records of {view.stream or 'no stream'}{older}")


def _shown(content: Content | None) -> str:
    return "-" if content is None else content.text if content.text is not None else content.base64 or ""


@app.command()
def coordinator(config: Config = None, json: Json = False) -> None:
    """The coordinator: version, store and lease, and which coordinator leads."""
    found: Document = _read(config, None, lambda asked: asked.info())
    if json:
        output.as_json(found)
        return
    for name, value in found.to_builtins().items():
        typer.echo(f"{name}: {_text(value)}")


def _read(config: Path | None, job: str | None, ask: Callable[[Operations], T]) -> T:
    return connect.read(configuration.load(config).coordinator, job, ask)


def _draw(columns: Iterable[str], rows: Iterable[Mapping[str, Any]]) -> None:
    table, names = rich_table.Table(), tuple(columns)
    for name in names:
        table.add_column(name)
    for row in rows:
        table.add_row(*(_text(row.get(name)) for name in names))
    tables.wide().print(table)


def _text(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:,.1f}" if isinstance(value, float) else str(value)
