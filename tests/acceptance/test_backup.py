"""A job is backed up while it runs, all else is destroyed, and it goes on elsewhere as if nothing had been."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from anabranch import crash_points
from tests.acceptance.harness import EXAMPLE, INPUT, JOB, LATE, Workspace, flights

pytestmark = pytest.mark.acceptance

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


@pytest.mark.parametrize("step", [pytest.param(crash_points.PLANNED, marks=pytest.mark.long), crash_points.PUBLISHED])
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
