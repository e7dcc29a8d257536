"""``anabranch inspect``: shows how much state the folders of a job's lanes contain."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import typer
from rich.table import Table

from anabranch import config as configuration
from anabranch.cli import connect, options, output, progress, tables
from anabranch.config import Settings
from anabranch.errors import StateError
from anabranch.model.job_model import JobModel
from anabranch.model.lane import Lane

app = typer.Typer(no_args_is_help=True, help="Inspect what a job's lanes store.")


@app.callback()
def inspect() -> None:
    """Show what a job's lanes store."""


@app.command("state")
def state(
    job: options.Job,
    config: options.Config = None,
    json: options.Json = False,
) -> None:
    """Show how much state each lane has, and how much of it belongs to tasks that the lane no longer owns."""
    settings = configuration.load(config)
    status, model = connect.described(settings.coordinator, job)
    lanes = [one.lane for one in status.lanes if one.lane.stateful]
    found = _looked(connect.settings_of(settings, job), model, lanes) if lanes else []
    if json:
        output.as_json({"job": job, "lanes": found})
        return
    if not lanes:
        typer.echo(f"job {job} has no stateful lane")
        return
    table = Table()
    for column in ("lane", "operator", "container", "batch", "rows", "bytes", "foreign rows", "foreign bytes", "tasks"):
        left = column in ("lane", "operator", "container", "tasks")
        table.add_column(column, justify="left" if left else "right")
    for each in found:
        figures = (f"{each[name]:,}" for name in ("rows", "bytes", "foreignRows", "foreignBytes"))
        place = each["lane"], each["operator"], each["seat"], str(each["batch"])
        table.add_row(*place, *figures, ", ".join(each["tasks"]))
    tables.wide().print(table)
    rows, foreign = (sum(each[name] for each in found) for name in ("rows", "foreignRows"))
    if foreign:
        typer.echo(f"{foreign:,} of {rows:,} rows ({foreign / rows:.0%}) belong to tasks that other lanes own now")


def _looked(settings: Settings, model: JobModel, lanes: list[Lane]) -> list[dict[str, Any]]:
    from anabranch.container.checkpoint.folder import Folder
    from anabranch.spark.query import state as spark_state
    from anabranch.spark.session import session

    keys = {stage.stage: len(stage.key) for stage in model.stages}
    progress.say("looking at the state with Spark ...")
    spark = session.for_schemas(settings, "")
    try:
        found = []
        for lane in lanes:
            uri = f"{settings.storage.root}/{lane.job}/{lane.id}/{lane.folder_epoch}"
            folder = Folder(spark, uri)
            if lane.folder_epoch and not folder.exists():
                raise StateError(f"the folder of lane {lane.id} is gone: {uri}", "restore the storage root")
            batch = folder.committed() if lane.folder_epoch else -1
            its = spark_state.StateSize(0, 0, 0, 0)
            if batch >= 0:
                its = spark_state.size_of(spark, lane, uri, batch, keys[lane.stage])
            place = {"lane": lane.id, "operator": lane.group, "stage": lane.stage, "seat": lane.seat}
            figures = {_camel(name): figure for name, figure in asdict(its).items()}
            found.append({**place, "tasks": list(lane.tasks), "batch": batch, **figures})
        return found
    finally:
        session.stop(spark)


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.title, others))
