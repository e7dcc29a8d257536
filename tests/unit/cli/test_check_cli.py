"""``anabranch check`` on what a stopped job has left, whole and damaged. No Spark is started."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import uuid
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from anabranch import own_files
from anabranch.cli.main import app
from tests.support.paths import OLD_JOBS

ARCHIVE = OLD_JOBS / "stopped-9a32a78.tar.xz"
JOB = "delays"

Check = Callable[..., tuple[int, list[dict[str, Any]]]]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a job that was stopped."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path)  # ours; Python 3.11.2 has no filters
    monkeypatch.chdir(tmp_path)
    return tmp_path / ".anabranch"


@pytest.fixture
def check(home: Path) -> Check:
    def called(*words: str) -> tuple[int, list[dict[str, Any]]]:
        result = CliRunner().invoke(app, ["check", JOB, "--json", *words])
        assert result.exit_code in (0, 1), result.output
        return result.exit_code, json.loads(result.stdout)["findings"]

    return called


def lane(home: Path, stage: int) -> Path:
    return next((home / "lanes" / JOB).glob(f"{stage}-*/1"))


def newest_entry(home: Path, stream: str) -> Path:
    """Of the first partition that has a record."""
    return max((home / "streams" / stream).glob("0/manifest/[0-9]*.json"))


def test_nothing_is_wrong_with_a_job_that_was_stopped(check: Check) -> None:
    assert check() == (0, [])


def test_a_batch_that_can_be_run_again_is_told_of(home: Path, check: Check) -> None:
    path = lane(home, 1) / "state" / "0" / "0" / "6.changelog"
    path.write_bytes(b"")
    code, (found,) = check()
    assert code == 1
    assert (found["path"], found["lost"]) == (str(path), "")
    assert found["problem"] == "is empty: it contains what batch 5 changed in the lane's state"
    assert found["mends"].startswith("runs batch 5 again")
    assert path.exists()  # nothing is changed


def test_what_can_only_be_restored_is_told_of(home: Path, check: Check) -> None:
    (lane(home, 1) / "state" / "0" / "0" / "1.changelog").unlink()
    code, (found,) = check()
    assert code == 1
    assert (found["lost"], found["mends"]) == ("its positions and its state", "")


def test_all_that_is_wrong_is_found_at_once(home: Path, check: Check) -> None:
    (lane(home, 1) / "streams.json").write_text("{")
    (lane(home, 0) / "metadata").write_text("")
    newest = newest_entry(home, "flights")
    newest.unlink()
    _, findings = check()
    problems = [(Path(found["path"]).name, found["problem"]) for found in findings]
    assert any(name == "streams.json" and "is damaged" in problem for name, problem in problems)
    assert any(name == "metadata" and "the query's id" in problem for name, problem in problems)


def test_an_output_that_was_set_back_is_found(home: Path, check: Check) -> None:
    note = lane(home, 0) / "outputs.json"
    note.write_text(json.dumps({"streams": {"late-flights": {"0": 10**6, "1": 0}}, "tables": {}}))
    _, (found,) = check()
    assert found["path"] == "embedded/late-flights/0"
    assert "but it used to end at 1000000" in found["problem"]
    assert found["lost"].endswith("to 999999, which the lane won't write again")


def test_an_entry_and_a_segment_of_a_stream_are_looked_at(home: Path, check: Check) -> None:
    newest_entry(home, "late-flights").write_bytes(b"")
    segment = next((home / "streams" / "flights").glob("1/segments/*"))
    segment.write_bytes(segment.read_bytes()[:100])
    _, findings = check()
    problems = {found["part"]: found for found in findings}
    assert "is damaged" in problems["stream late-flights"]["problem"]
    assert problems["stream late-flights"]["lost"].startswith("late-flights, partition 0 from offset ")
    assert "has 100 bytes instead of " in problems["stream flights"]["problem"]


HOLD = """
import fcntl, sys
file = open(sys.argv[1], "w")
fcntl.lockf(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


def test_a_lane_that_a_container_runs_while_no_coordinator_serves_the_job_is_not_checked(
    home: Path, check: Check
) -> None:
    """Its folder changes all the time. A container goes on if its coordinator is killed."""
    (lane(home, 1) / "state" / "0" / "0" / "1.changelog").unlink()
    path = str(lane(home, 1)) + ".lock"
    with subprocess.Popen([sys.executable, "-c", HOLD, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert check() == (0, [])
        said = CliRunner().invoke(app, ["check", JOB]).output
        assert "nothing is wrong; 1 of its lanes are running, and weren't checked" in said
    assert check()[0] == 1


def torn(folder: Path, times: int) -> Callable[[Path], Iterator[str]]:
    """Lists a folder the first few times as if its last commits were not there yet, and as if another file, which is
    gone by now, were there still. Each time, the folder gets another file."""
    real, done = own_files.below, count(1)
    last = sorted((each for each in (folder / "commits").iterdir() if each.name.isdecimal()), key=lambda e: int(e.name))
    late = tuple(f"commits/{each.name}" for each in last[-2:])

    def below(place: Path) -> Iterator[str]:
        if not place.samefile(folder) or next(done) > times:
            return real(place)
        (folder / "state" / uuid.uuid4().hex).touch()
        there = [each for each in real(place) if not each.endswith(late)]
        return iter([*there, f"{place}/offsets/1000"])

    return below


@pytest.mark.parametrize(("times", "note"), [(1, ""), (999, "; 1 of its lanes are running, and weren't checked")])
def test_a_folder_that_changed_while_it_was_listed_is_listed_again(
    home: Path, monkeypatch: pytest.MonkeyPatch, times: int, note: str
) -> None:
    monkeypatch.setattr(own_files, "below", torn(lane(home, 1), times))
    result = CliRunner().invoke(app, ["check", JOB])
    assert (result.exit_code, result.output.strip()) == (0, f"job {JOB}: nothing is wrong{note}")
