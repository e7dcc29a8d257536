"""What is said about the folder of a lane that stopped: problems continue a sentence that begins with the path."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import msgspec
import pytest

from anabranch.config import OutputSettings, Settings
from anabranch.container.checkpoint import review
from anabranch.container.checkpoint.review import Finding, LaneFiles
from anabranch.container.checkpoint.soundness import Checkpoint
from anabranch.errors import AnabranchError
from anabranch.systems.embedded import EmbeddedSystem
from anabranch.systems.systems import Systems
from tests.unit.coordinator.helpers import FIRST, lane

FOLDER = "/lanes/delays/flights/1"


def said(files: Checkpoint | None, published: int) -> str:
    """The path and the problem, as ``check`` prints them."""
    found = LaneFiles(lane(FIRST), FOLDER, files)
    ((problem,), resumed) = review.of_lane(found, Systems(Settings(), "delays"), lambda _: published)
    assert resumed is None
    assert problem.part == f"lane {FIRST}"
    return f"{problem.path} {problem.problem}"


def test_a_folder_that_is_not_there_is_missing() -> None:
    assert said(None, published=3) == f"{FOLDER} is missing: it is the folder of the lane"


def test_a_folder_that_was_set_back_is_an_older_copy() -> None:
    there = Checkpoint({}, lambda name: b"")
    expected = f"{FOLDER} has no batch after -1, but the outputs hold batch 3: it is an older copy of the folder"
    assert said(there, published=3) == expected


def test_an_emptied_folder_of_a_lane_that_has_run_is_no_new_one(tmp_path: Path) -> None:
    its = lane(FIRST, folder_epoch=1, stateful=True, first_batch=41)
    (tmp_path / its.job / its.id / "1").mkdir(parents=True)
    found = review.local_files(f"file://{tmp_path}", its)
    assert found is not None
    ((problem,), resumed) = review.of_lane(found, Systems(Settings(), "delays"), lambda _: -1)
    assert resumed is None
    assert problem.problem.startswith("has no batch after -1, but the store knows batch 40 of the lane: it contains")
    assert problem.lost == "its positions and its state"


def test_a_snapshot_that_the_state_can_do_without_is_told() -> None:
    files = {
        "offsets/0": b'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1}\n{"stream":"a","positions":{"0":1}}',
        "commits/0": b'v1\n{"nextBatchWatermarkMs":0}',
        "metadata": b'{"id":"x"}',
        "state/0/0/1.changelog": b"changes",
        "state/0/0/1.zip": b"",
    }
    there = Checkpoint({name: len(content) for name, content in files.items()}, files.__getitem__, partitions=1)
    found = LaneFiles(lane(FIRST, stateful=True), FOLDER, there)
    ((problem,), resumed) = review.of_lane(found, Systems(Settings(), "delays"), lambda _: 0)
    assert resumed is None
    assert problem.path == f"{FOLDER}/state/0/0/1.zip"
    assert problem.problem == "is empty: it contains all of the state after batch 0"
    assert problem.mends == "removes the snapshot: the state is built from older files"
    assert not problem.lost


def test_what_a_power_cut_has_left_of_a_query_that_had_planned_nothing_is_told() -> None:
    files = {"metadata": b"", "sources/0/0": b"", "starting.json": b"{}"}
    there = Checkpoint({name: len(content) for name, content in files.items()}, files.__getitem__)
    found = LaneFiles(lane(FIRST), FOLDER, there)
    problems, resumed = review.of_lane(found, Systems(Settings(), "delays"), lambda _: -1)
    assert resumed is None
    assert [(each.path, each.lost, bool(each.mends)) for each in problems] == [
        (f"{FOLDER}/metadata", "", True),
        (f"{FOLDER}/sources/0/0", "", True),
    ]


def test_a_folder_that_cannot_be_listed_is_not_taken_for_an_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    its = lane(FIRST)
    place = tmp_path / its.job / its.id / str(its.folder_epoch)
    place.joinpath("commits").mkdir(parents=True)
    place.joinpath("commits/0").write_text("v1")
    found = review.local_files(f"file://{tmp_path}", its)
    assert found is not None
    assert found.files is not None
    assert dict(found.files.sizes) == {"commits/0": 2}
    scandir = os.scandir

    def listed(path: str) -> object:
        if Path(path).name == "commits":
            raise OSError(errno.EIO, "Input/output error", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", listed)
    with pytest.raises(OSError, match="/commits'"):
        review.local_files(f"file://{tmp_path}", its)


def test_a_stream_is_compared_though_another_one_has_a_topic_of_its_name(tmp_path: Path) -> None:
    EmbeddedSystem(tmp_path).create("flights", partitions=1)
    bound = {"flights-kafka": {"system": "kafka", "topic": "flights"}}
    settings = Settings.model_validate({"systems": {"embedded": {"root": tmp_path}}, "streams": bound})
    files = {
        "offsets/0": b'v1\n{"batchWatermarkMs":0}\n{"stream":"flights","id":"x","positions":{"0":5}}',
        "commits/0": b'v1\n{"nextBatchWatermarkMs":0}',
        "metadata": b'{"id":"x"}',
    }
    there = Checkpoint({name: len(content) for name, content in files.items()}, files.__getitem__)
    found = LaneFiles(lane(FIRST), FOLDER, there)
    ((problem,), _) = review.of_lane(found, Systems(settings, "delays"), lambda _: 0)
    assert (problem.path, problem.problem.partition(",")[0]) == ("embedded/flights/0", "ends at offset 0")


class Sums:
    """A table that contains the lane's batches up to ``batch``."""

    batch = 4

    def last(self, *_: object) -> int:
        if self.batch < 0:
            raise AnabranchError("the table 'sums' can't be reached")
        return self.batch


def test_a_table_that_has_lost_batches_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    sums = Sums()
    monkeypatch.setattr(Systems, "table", lambda *_: sums)
    systems = Systems(Settings(outputs={"sums": OutputSettings(to="parquet", options={"path": "/sums"})}), "delays")

    def found(first_batch: int = 0) -> list[Finding]:
        its = msgspec.structs.replace(lane(FIRST, first_batch=first_batch), outputs={"sums": 1}, systems={})
        files = {"outputs.json": b'{"streams":{},"tables":{"sums":4,"of-another-version":9}}'}
        there = Checkpoint({"outputs.json": 1}, files.__getitem__)
        return review.of_lane(LaneFiles(its, FOLDER, there), systems, lambda _: -1)[0]

    assert found() == []
    sums.batch = 2
    (lost,) = found()
    assert "the table 'sums' contains batches of lane" in lost.problem
    assert "up to 2, but it used to contain them up to 4" in lost.problem
    assert lost.lost == "the rows of batches 3 to 4, which the lane won't write again"
    assert found(first_batch=5) == []  # they were a predecessor's
    sums.batch = -1
    (away,) = found()
    assert away.problem == "the table 'sums' can't be reached"
