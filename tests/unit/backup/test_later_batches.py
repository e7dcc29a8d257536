"""What outputs that aren't restored may contain."""

from __future__ import annotations

from collections.abc import Set
from pathlib import Path
from typing import Any

import pytest

from anabranch.backup import later_batches
from anabranch.backup.manifest import LaneFolder, Manifest
from anabranch.backup.moment import Moment
from anabranch.config import Settings
from anabranch.errors import ConflictError
from anabranch.model.document import encode
from anabranch.model.lane import Lane, LaneState
from anabranch.systems.embedded import LaneWriter, Log, fence
from anabranch.systems.systems import Systems
from tests.unit.systems.embedded.helpers import put

JOB = "j"


@pytest.fixture
def log(tmp_path: Path) -> Log:
    found = Log(tmp_path / "streams")
    found.create("out", 1)
    return found


def lane(name: str, **fields: Any) -> Lane:
    given = {"deployment": 1, "stage": "0", "group": "g", "seat": "0", "tasks": (), "ssps": (), "folder_epoch": 1}
    return Lane(id=name, job=JOB, outputs={"out": 1}, **{**given, **fields})


def write(log: Log, name: str, batch: int) -> None:
    put(LaneWriter(log, JOB, name, 1), log, "out", 0, batch, b"x")


def check(log: Log, *lanes: Lane, restored: Set[str] = frozenset(), state: str = "stopped") -> None:
    systems = Systems(Settings(systems={"embedded": {"root": str(log.root)}}), JOB)  # type: ignore[arg-type]
    folders = tuple(
        LaneFolder(lane=each.id, epoch=1, planned=3, is_open=True)
        for each in lanes
        if each.state is not LaneState.CLOSED
    )
    backup = Manifest(
        id="b", job=JOB, made_at=0.0, anabranch="1", lanes=folders, streams=(), elsewhere=("embedded/out",), files={}
    )
    rows = {
        "lanes": [{"id": each.id, "record": encode(each).decode()} for each in lanes],
        "deployments": [{"id": 1, "state": state}],
    }
    later_batches.check(systems, backup, Moment(JOB, rows), restored)


def test_what_the_backup_knows_may_be_there(log: Log) -> None:
    write(log, "0-former", 9)
    write(log, "0-a", 3)
    check(log, lane("0-former", state=LaneState.CLOSED, last_batch=9), lane("0-a", predecessors=("0-former",)))


def test_later_batches_of_its_lanes_may_not(log: Log) -> None:
    write(log, "0-a", 4)
    with pytest.raises(ConflictError, match="batch 4 of lane 0-a, but the backup of job 'j' ends with batch 3"):
        check(log, lane("0-a"))
    check(log, lane("0-a"), restored={"out"})


@pytest.mark.parametrize("state", ["stopped", "drained"])
def test_batches_of_later_lanes_may_not(log: Log, state: str) -> None:
    """The job was scaled, or deployed, after the backup was made: the lane of the backup wrote nothing any more."""
    write(log, "0-a", 3)
    write(log, "0-b", 0)
    ends = {"state": LaneState.CLOSED, "last_batch": 3} if state == "drained" else {}
    with pytest.raises(ConflictError, match="stream 'out' already contains batches of lane 0-b, which isn't in the"):
        check(log, lane("0-a", **ends), state=state)
    check(log, lane("0-a", **ends), restored={"out"}, state=state)


def test_later_lanes_that_wrote_nothing_may_be_there(log: Log) -> None:
    """They were started after the backup was made, and fenced before their first batch."""
    write(log, "0-a", 3)
    fence(log, "out", JOB, "0-b", 1)
    check(log, lane("0-a"))
    LaneWriter(log, JOB, "0-b", 1).close(["out"])
    check(log, lane("0-a"))


def test_what_other_jobs_wrote_may_be_there(log: Log) -> None:
    put(LaneWriter(log, "another", "0-z", 1), log, "out", 0, 0, b"x")
    check(log, lane("0-a"))
