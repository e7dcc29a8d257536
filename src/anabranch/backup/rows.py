"""Writes a job's rows into a backup, and reads them. In a backup, the rows form a small store. If that store has an
older format, it is migrated like any other store."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from anabranch import scratch
from anabranch.backup import manifest
from anabranch.config import sqlite_urls
from anabranch.container.checkpoint.filesystem import Tree
from anabranch.coordinator.store import Event, Store
from anabranch.coordinator.store.moving import JobRows
from anabranch.model.deployment_state import DeploymentState
from anabranch.model.document import decode, encode
from anabranch.model.lane import Lane, LaneState
from anabranch.protocol.deployment import Program

__all__ = ["EPOCHS_AHEAD", "at_rest", "joined", "keep", "kept", "last_program"]

EPOCHS_AHEAD = 1000
"""How far a restored job's epoch is ahead of the epoch in the backup. The original job may have continued after the
backup, and the restored job's processes must have higher epochs than the original job's processes.
"""


def keep(rows: JobRows, job: str, at: float, tree: Tree) -> None:
    """Write a job's rows into a backup. ``at`` is the time of the backup, in seconds since 1970."""
    folder = scratch.folder("backup")
    with closing(Store(_url(folder))) as store:
        store.import_job(job, rows, Event(kind="other", job=job, at=at, who="user", what="a backup was made"))
    tree.other(f"file://{folder}").copy(manifest.STORE, tree, lives=False)


def kept(job: str, tree: Tree) -> JobRows:
    """The job's rows in a backup."""
    folder = scratch.folder("restore")
    tree.copy(manifest.STORE, tree.other(f"file://{folder}"), lives=False)
    with closing(Store.open_existing(_url(folder), to_write=True)) as store:
        return store.export_job(job)


def at_rest(rows: JobRows, places: Mapping[str, Any], why: str) -> JobRows:
    """A copy of a job's rows for a restore, changed so that no process runs the job: an active deployment becomes a
    stopped one, running lanes become planned ones, and containers lose their seats. The epoch is raised by
    :data:`EPOCHS_AHEAD`.

    Args:
        places: the settings that say where lanes and streams are now. They replace the settings with which the job was
            started.
        why: the reason that is recorded for the processes that lose their seats.
    """
    changed = {name: [dict(row) for row in its] for name, its in rows.items()}
    for row in changed["jobs"]:
        row["epoch"] += EPOCHS_AHEAD
    for row in changed["deployments"]:
        if DeploymentState(row["state"]).active:
            row |= {"state": DeploymentState.STOPPED.value, "error": None, "drain": None}
        if row["program"] is not None:
            program = decode(row["program"], Program)
            settings = joined(program.settings, places)
            row["program"] = encode(msgspec.structs.replace(program, settings=settings)).decode()
    for row in changed["lanes"]:
        lane = decode(row["record"], Lane)
        state = LaneState.PLANNED if lane.state is LaneState.RUNNING else lane.state
        rests = msgspec.structs.replace(lane, state=state, unfenced=False, abandoned=False)
        row |= {"state": state.value, "record": encode(rests).decode()}
    for row in changed["containers"]:
        row["gone"] = row["gone"] or why
    return changed


def last_program(rows: JobRows) -> Program | None:
    """The program with which containers run the last deployment; None if the job ran in one process with its
    coordinator.
    """
    last = max(rows["deployments"], key=lambda row: int(row["id"]))
    program = None if last["program"] is None else decode(last["program"], Program)
    return None if program is None or program.in_process else program


def joined(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Nested settings, merged at every level. Those in ``above`` take precedence."""
    found = dict(below)
    for name, each in above.items():
        found[name] = joined(below.get(name) or {}, each) if isinstance(each, Mapping) else each
    return found


def _url(folder: Path) -> str:
    return sqlite_urls.url_of(folder / manifest.STORE)
