"""``anabranch compact``: removes lane folders and foreign state that a stopped job no longer needs. Foreign state is
state in one lane's folder that belongs to tasks of other lanes.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from anabranch import config as configuration
from anabranch.cli import connect, options, output, progress
from anabranch.config.storage import local_folder
from anabranch.coordinator.maintenance import deletion, stopped_job
from anabranch.coordinator.store import Store, stored_jobs
from anabranch.model.lane import Lane


@dataclass(frozen=True)
class Compaction:
    """A lane's state before and after compaction: the number of rows, and the size of keys and values in bytes."""

    lane: str
    rows: int
    bytes: int
    rows_now: int
    bytes_now: int


def compact(
    job: Annotated[str, typer.Argument(help="The name of a stopped job.")],
    config: options.Config = None,
    json: options.Json = False,
) -> None:
    """Remove foreign state from a stopped job's lanes, and the folders of its closed lanes. Safe to kill and repeat."""
    from anabranch.container.checkpoint import claims
    from anabranch.spark.session import session

    settings = configuration.load(config)
    with stopped_job.alone(settings.coordinator, job, progress.say) as store:
        lanes = stopped_job.lanes(store, job)
        found: Sequence[Compaction] = ()
        its = connect.stored_settings(settings, store, job)
        if lanes:
            progress.say("looking at the state with Spark ...")
            spark = session.for_schemas(its, "")
            try:
                found = compacted(store, spark, its.storage.root, lanes)
            finally:
                claims.stop_session(spark)
        removed = cleared(store, job, its.storage.root)
    if json:
        told = {"job": job, "lanes": [_plain(each) for each in found], "folders": removed}
        output.as_json(told)
    for each in found:
        rows, size = f"{each.rows_now:,} of {each.rows:,} rows", f"{each.bytes_now:,} of {each.bytes:,} bytes"
        progress.say(f"lane {each.lane}: {rows} stay, {size}")
    if not found:
        progress.say(f"job {job} keeps no state of tasks that other lanes own")
    if removed:
        progress.say(f"{len(removed)} folders of closed lanes were removed")


def compacted(store: Store, spark: Any, root: str, lanes: Sequence[Lane]) -> list[Compaction]:
    """For each lane that has foreign state, replace the lane's folder with a copy without that state.

    Raises the errors of :func:`anabranch.container.checkpoint.compaction.look` and
    :func:`anabranch.container.checkpoint.compaction.rewrite`. After such an error, all lanes still have their old
    folders.
    """
    from anabranch.container.checkpoint import compaction

    job = lanes[0].job
    keys = {stage.stage: len(stage.key) for stage in stored_jobs.model(store, job).stages}
    looks = [
        compaction.look(spark, lane, f"{root}/{job}/{lane.id}/{lane.folder_epoch}", keys[lane.stage]) for lane in lanes
    ]
    foreign = [each for each in looks if each.size.foreign_rows]
    if not foreign:
        return []
    told: dict[str, Compaction] = {}
    begun = stopped_job.begun(store, [each.lane for each in foreign], time.time())
    for lane, each in zip(begun, foreign, strict=True):
        progress.say(f"lane {lane.id}: {each.size.foreign_rows:,} of {each.size.rows:,} rows are foreign ...")
        now = compaction.rewrite(spark, each, f"{root}/{job}/{lane.id}/{lane.epoch}")
        told[lane.id] = Compaction(lane.id, each.size.rows, each.size.bytes, now.rows, now.bytes)
    stopped_job.replaced(
        store,
        [(lane, f"{told[lane.id].rows_now:,} of {told[lane.id].rows:,} rows stay") for lane in begun],
        time.time(),
    )
    for each in foreign:
        each.folder.remove()
    return list(told.values())


def cleared(store: Store, job: str, root: str) -> list[str]:
    """Delete the lane folders that a stopped job no longer needs, and return their names. Deletes nothing unless
    ``root`` is on a local disk. Call :func:`stopped_job.lanes` first: it checks that the job is stopped.
    """
    place = local_folder(root)
    if place is None:
        return []
    home = place / job
    there = [(path.parent.name, path.name) for path in home.glob("*/*") if path.is_dir()]
    removed = []
    for lane, name in stopped_job.unneeded(store.lanes(job), there):
        deletion.delete(home / lane / name, "", f"anabranch compact {job}")
        removed.append(f"{lane}/{name}")
        with suppress(OSError):  # raised if the lane has other folders
            (home / lane).rmdir()
    return removed


def _plain(found: Compaction) -> dict[str, str | int]:
    return {
        "lane": found.lane,
        "rows": found.rows,
        "bytes": found.bytes,
        "rowsNow": found.rows_now,
        "bytesNow": found.bytes_now,
    }
