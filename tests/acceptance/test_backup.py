"""A job is backed up while it runs, all else is destroyed, and it goes on elsewhere as if nothing had been."""

from __future__ import annotations

import json
import shutil
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from anabranch import crash_points
from anabranch.testing.broker import Cluster
from tests.acceptance.harness import EXAMPLE, INPUT, JOB, LATE, Flight, Workspace, flights
from tests.soak.served import SETTINGS, Served, ended_well

pytestmark = [pytest.mark.acceptance, pytest.mark.long]

SMALL = {"job__max_rows_per_batch": 250}


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Callable[..., Workspace]]:
    """Makes workspaces, each in a folder of its own."""
    all_made: list[Workspace] = []

    def make(name: str, **given: Any) -> Workspace:
        (tmp_path / name).mkdir()
        all_made.append(Workspace(tmp_path / name, **given))
        return all_made[-1]

    yield make
    for each in all_made:
        each.close()


def backed_up(workspace: Workspace, place: Path) -> Any:
    return json.loads(workspace.call("backup", JOB, str(place), "--json").stdout)


def destroy(workspace: Workspace, *, but_for: str = "") -> None:
    """Nothing is left of it but its job file, and ``but_for``."""
    for each in (workspace.folder / ".anabranch").iterdir():
        if each.name != but_for:
            shutil.rmtree(each) if each.is_dir() else each.unlink()


def test_a_job_that_runs_goes_on_elsewhere_and_its_outputs_are_exact(
    made: Callable[..., Workspace], tmp_path: Path
) -> None:
    old, several = made("old"), flights(5, 20_000)
    old.put(several)
    process = old.start("run", EXAMPLE.name, **SMALL)
    process.until("some batches", lambda: old.committed("0-") >= 3 and old.committed("1-") >= 3)
    told = backed_up(old, tmp_path / "backup")
    before, after = {lane: old.committed(lane) for lane in told["lanes"]}, told["lanes"]
    assert not process.ended, "it goes on while it is backed up"
    process.kill()
    destroy(old)

    assert sum(told["streams"][INPUT].values()) == len(several)
    assert all(after[lane] <= batch + 1 for lane, batch in before.items()), "one may be planned"
    assert sum(told["streams"][LATE].values()) < sum((flight["dep_delay"] or 0) >= 15 for flight in several)
    new = made("new")
    new.call("restore", str(tmp_path / "backup"))
    status = new.status()
    assert (status["state"], status["containers"]) == ("stopped", [])
    new.finish()
    new.check_outputs(several)
    assert new.call("check", JOB).stdout == ""


@pytest.mark.parametrize("step", [crash_points.PLANNED, crash_points.PUBLISHED])
def test_a_batch_that_is_under_way_is_run_again(made: Callable[..., Workspace], tmp_path: Path, step: str) -> None:
    old, several = made("old"), flights(6, 4000)
    old.put(several)
    process = old.start("run", EXAMPLE.name, hold=f"0-:{step}:2", **SMALL)
    lane = process.held()
    told = backed_up(old, tmp_path / "backup")
    process.kill()
    destroy(old)
    assert told["lanes"][lane] == 2

    new = made("new")
    new.call("restore", str(tmp_path / "backup"))
    new.finish()
    new.check_outputs(several)


def test_killed_at_any_step_backup_and_restore_are_whole_or_not_there(
    made: Callable[..., Workspace], tmp_path: Path
) -> None:
    workspace, several = made("old"), flights(7, 3000)
    place = str(tmp_path / "backup")
    workspace.put(several[:1500])
    workspace.finish()
    lost = made("lost")
    for step in crash_points.OF_BACKUPS:
        process = workspace.start("backup", JOB, place, hold=f"{JOB}:{step}:0")
        process.held()
        process.kill()
        if step != crash_points.LISTED:
            said = lost.call("restore", place, code=3).stderr
            assert f"the backup of job '{JOB}' at file:{place} was interrupted" in said
    assert "holds a backup already" in workspace.call("backup", JOB, place, code=4).stderr
    workspace.put(several[1500:])
    workspace.finish()

    new = made("new")
    for step in crash_points.OF_RESTORES:
        process = new.start("restore", place, hold=f"{JOB}:{step}:0")
        process.held()
        process.kill()
    new.call("restore", place)
    assert "has a job 'delays' already" in new.call("restore", place, code=4).stderr
    new.put(several[1500:])
    new.finish()
    new.check_outputs(several)


def test_what_cannot_be_exact_is_refused_and_nothing_is_changed(made: Callable[..., Workspace], tmp_path: Path) -> None:
    workspace, several = made("old"), flights(8, 2000)
    place = tmp_path / "backup"
    workspace.put(several[:1000])
    workspace.finish()
    backed_up(workspace, place)
    workspace.put(several[1000:])
    workspace.finish()
    ends = workspace.ends()

    destroy(workspace, but_for="streams")
    said = workspace.call("restore", str(place), code=4).stderr
    assert "the later batches were written after the backup was made" in said
    assert "set those outputs back to the time of this one" in said
    assert workspace.ends() == ends
    assert not workspace.lanes.exists()
    assert not (workspace.folder / ".anabranch" / "coordinator.db").exists()

    for output in [each for each in ends if each != INPUT]:
        shutil.rmtree(workspace.folder / ".anabranch" / "streams" / output)
    damaged = next(place.glob("streams/embedded/late-flights/0/segments/*"))
    content = damaged.read_bytes()
    damaged.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    said = workspace.call("restore", str(place), code=1).stderr
    assert f"{damaged.name} isn't what was written" in said
    assert "isn't what was written" in workspace.call("restore", str(place), "--check", code=1).stderr
    damaged.write_bytes(content)
    workspace.call("restore", str(place), "--check")
    workspace.call("restore", str(place))
    workspace.finish()  # the input has stayed, with what came after the backup
    workspace.check_outputs(several)


@pytest.mark.parametrize("committed", [True, False], ids=["after some batches", "in the first batch"])
def test_a_stream_that_no_longer_keeps_what_must_still_be_read_is_refused(
    made: Callable[..., Workspace], tmp_path: Path, committed: bool
) -> None:
    workspace, several = made("old"), flights(9, 2000)
    place = tmp_path / "backup"
    workspace.put(several[:1000], pieces=4)
    if committed:
        workspace.finish()
        workspace.put(several[1000:], pieces=4)  # which no lane has read yet
        backed_up(workspace, place)
    else:
        process = workspace.start("run", EXAMPLE.name, hold=f"0-:{crash_points.PLANNED}:0")
        process.held()
        workspace.put(several[1000:], pieces=4)
        backed_up(workspace, place)
        process.kill()
    workspace.system.purge(INPUT, {number: end - 1 for number, end in workspace.ends()[INPUT].items()})

    destroy(workspace, but_for="streams")
    said = workspace.call("restore", str(place), code=4).stderr
    assert f"there is a stream '{INPUT}' here already" in said
    assert "must still read, were deleted from it" in said
    assert not workspace.lanes.exists()
    assert not (workspace.folder / ".anabranch" / "coordinator.db").exists()

    shutil.rmtree(workspace.folder / ".anabranch" / "streams" / INPUT)
    workspace.call("restore", str(place))
    workspace.finish()
    workspace.check_outputs(several)


def test_on_kafka_it_is_exact_unless_something_was_written_since(
    made: Callable[..., Workspace], tmp_path: Path, cluster: Cluster
) -> None:
    workspace, several = made("old", cluster=cluster), flights(9, 2000)

    def more(some: list[Flight]) -> None:
        workspace.put(some)
        workspace.finish()

    more(several[:1000])
    told = backed_up(workspace, tmp_path / "first")
    internal = {f"{JOB}-markers", f"{JOB}-controls"}
    assert told["elsewhere"] == [f"kafka/{each}" for each in sorted({*workspace.system.streams()} - internal)]
    destroy(workspace)
    workspace.call("restore", str(tmp_path / "first"))
    more(several[1000:])
    workspace.check_outputs(several)

    destroy(workspace)
    said = workspace.call("restore", str(tmp_path / "first"), code=4).stderr
    assert "the later batches were written after the backup was made" in said


def test_a_job_under_a_coordinator_is_restored_with_its_code(made: Callable[..., Workspace], tmp_path: Path) -> None:
    old = made("old")
    served = Served(old, count=4000, seed=10)
    container = served.under_way()
    backed_up(old, tmp_path / "backup")
    container.kill()
    served.coordinator.kill()
    destroy(old)

    new = made("new")
    new.call("restore", str(tmp_path / "backup"))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    new.settings |= {**SETTINGS, "coordinator__url": f"http://127.0.0.1:{port}"}
    coordinator = new.start("coordinator", "--port", str(port))
    coordinator.until("its URL", lambda: str(port) in coordinator.stderr)
    new.call("start", JOB, "--detach")
    ended_well(new.start("container", JOB))
    new.check_outputs(served.flights)
    coordinator.popen.send_signal(signal.SIGTERM)
    assert coordinator.wait() == 0, coordinator.stderr
