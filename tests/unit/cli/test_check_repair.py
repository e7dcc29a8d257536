"""``anabranch check --repair`` on a stopped job one of whose lanes has a damaged plan of its last batch. No Spark is
started."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from anabranch.cli.main import app
from anabranch.container.checkpoint import folder
from anabranch.container.checkpoint.folder import Folder
from anabranch.coordinator.store import Store
from anabranch.errors import AnabranchError
from anabranch.model.lane import Lane
from anabranch.spark.session import session
from anabranch.systems.systems import Systems
from tests.support.paths import OLD_JOBS
from tests.unit.backup.trees import OnDisk

JOB = "delays"

Published = Callable[[list[str], int], int]
"""Returns the last batch in the lane's outputs, given the steps so far and the lane's last batch."""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a job that was stopped."""
    with tarfile.open(OLD_JOBS / "stopped-9a32a78.tar.xz") as archive:
        archive.extractall(tmp_path)  # ours; Python 3.11.2 has no filters
    monkeypatch.chdir(tmp_path)
    made = tmp_path / ".anabranch"
    Store.open_existing(f"sqlite:///{made}/coordinator.db", to_write=True).close()  # migrates it, and logs that
    return made


@pytest.fixture
def damaged(home: Path) -> Path:
    """The damaged plan of a lane's last batch."""
    entries = (home / "lanes" / JOB).glob("1-*/1/offsets/[0-9]*")
    last = max(entries, key=lambda each: int(each.name))
    last.write_bytes(b"")
    return last


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was done to the lane, in order."""
    done: list[str] = []

    class WithoutSpark(Folder):
        def __init__(self, _spark: object, uri: str, _streams: object) -> None:
            self.tree = OnDisk(uri)
            self.uri = uri

        def lock(self, _unless: object = None) -> None:
            done.append("lock")

    def recover(_: Systems, lane: Lane, epoch: int, *, new: bool | None) -> None:
        done.append(f"recover {lane.id.partition('-')[0]} with epoch {epoch}, {new}")

    def fence_tables(_: Systems, lane: Lane, epoch: int, *, new: bool | None, foreign: bool) -> None:
        done.append(f"fence the tables of {lane.id.partition('-')[0]} with epoch {epoch}, {new}, {foreign}")

    monkeypatch.setattr(session, "for_schemas", lambda *_: None)
    monkeypatch.setattr(session, "stop", lambda _: None)
    monkeypatch.setattr(folder, "Folder", WithoutSpark)
    monkeypatch.setattr(Systems, "recover", recover)
    monkeypatch.setattr(Systems, "fence_tables", fence_tables)
    return done


def repaired(
    monkeypatch: pytest.MonkeyPatch, steps: list[str], damaged: Path, published: Published
) -> tuple[int, list[Any]]:
    """The exit code, and the findings."""
    last = int(damaged.name)
    monkeypatch.setattr(
        Systems, "published", lambda _, lane: published(steps, last) if lane.id.startswith("1-") else -1
    )
    result = CliRunner().invoke(app, ["check", JOB, "--json", "--repair"])
    assert result.exit_code in (0, 1), result.output
    return result.exit_code, json.loads(result.stdout)["findings"]


def stored(home: Path) -> dict[str, Lane]:
    with closing(Store.open_existing(f"sqlite:///{home}/coordinator.db")) as store:
        return {each.id.partition("-")[0]: each for each in store.open_lanes(JOB)}


def test_only_the_lane_that_is_repaired_is_fenced_and_before_that(
    home: Path, damaged: Path, steps: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def published(steps: list[str], last: int) -> int:
        steps.append("look at the outputs" if damaged.exists() else "look too late")
        return last - 1

    before = stored(home)
    code, (found,) = repaired(monkeypatch, steps, damaged, published)
    assert (code, found["path"]) == (0, str(damaged))
    assert found["mends"].startswith("continues after batch")
    assert not damaged.exists()
    after = stored(home)
    epoch = after["1"].epoch
    assert epoch > max(each.epoch for each in before.values())
    assert (after["0"], after["1"].folder_epoch) == (before["0"], before["1"].folder_epoch)
    assert steps[steps.index("lock") :] == [
        "lock",
        f"recover 1 with epoch {epoch}, False",
        f"fence the tables of 1 with epoch {epoch}, False, True",
        "look at the outputs",
    ]
    with closing(Store.open_existing(f"sqlite:///{home}/coordinator.db")) as store:
        (event,) = [each for each in store.events(JOB, 100) if each.who == "check"]
    assert (event.kind, event.what) == ("fence", f"a repair begins for {after['1'].id}")


def test_a_batch_that_a_writer_publishes_until_it_is_fenced_is_not_forgotten(
    damaged: Path, steps: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def published(steps: list[str], last: int) -> int:
        return last if any(each.startswith("recover") for each in steps) else last - 1

    code, (found,) = repaired(monkeypatch, steps, damaged, published)
    assert (code, found["mends"]) == (1, "")
    assert found["lost"] == "its positions and its state"
    assert damaged.exists()


def test_a_batch_is_not_forgotten_if_the_outputs_cannot_be_fenced(
    damaged: Path, steps: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def recover(*_: object, **__: object) -> None:
        raise AnabranchError("no broker answers")

    monkeypatch.setattr(Systems, "recover", recover)
    code, findings = repaired(monkeypatch, steps, damaged, lambda _, last: last - 1)
    assert code == 1
    assert [each["mends"] for each in findings] == ["", ""]
    assert findings[0]["problem"].endswith("which of its batches the outputs contain: no broker answers")
    assert damaged.exists()


def test_a_lane_with_which_nothing_is_wrong_is_left_alone(
    home: Path, steps: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = stored(home)
    assert repaired(monkeypatch, steps, Path("0"), lambda *_: -1) == (0, [])
    assert (stored(home), steps) == (before, [])
