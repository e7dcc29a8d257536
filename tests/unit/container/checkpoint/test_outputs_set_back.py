"""Outputs that hold less than a lane knows to be in them: compared with what was noted after its last batches."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, cast

import msgspec
import pytest
from py4j.protocol import Py4JError

from anabranch.config import EmbeddedSettings, Settings, StreamSettings, SystemsSettings
from anabranch.container.checkpoint.folder import Folder
from anabranch.container.checkpoint.output_ends import Outputs
from anabranch.errors import AnabranchError, StateError
from anabranch.model.lane import Lane
from anabranch.spark.query.tables import TablePublisher
from anabranch.systems.embedded import Log, append
from anabranch.systems.output import Written
from anabranch.systems.systems import Systems
from anabranch.tables import Mark, Owner, Table, committed, marks
from tests.unit.coordinator.helpers import FIRST, lane
from tests.unit.systems.embedded.helpers import records


class Kept:
    """The part of a lane's folder that outputs are noted in."""

    def __init__(self) -> None:
        self.noted: dict[str, Any] = {}
        self.writes = 0
        self.trouble = ""
        self.error: type[Exception] = AnabranchError
        self.batch = 99

    def planned(self) -> int:
        return self.batch

    def note_outputs(self, noted: Mapping[str, Any]) -> None:
        if self.trouble:
            raise self.error(f"outputs.json could not be written: {self.trouble}")
        self.noted = dict(noted)
        self.writes += 1

    def outputs(self) -> dict[str, Any]:
        return self.noted


@pytest.fixture
def log(tmp_path: Path) -> Log:
    log = Log(tmp_path / "streams")
    log.create("out", 1)
    append(log, "out", [records([b"x"] * 3)])
    append(log, "out", [records([b"x"] * 2)])
    return log


@pytest.fixture
def kept() -> Kept:
    return Kept()


def writing() -> Lane:
    return msgspec.structs.replace(lane(FIRST), outputs={"out": 1}, systems={})


def outputs(log: Log, on_data_loss: Literal["fail", "earliest"] = "fail") -> Outputs:
    """As a new process has them."""
    systems = SystemsSettings(embedded=EmbeddedSettings(root=log.root))
    streams = {"out": StreamSettings(on_data_loss=on_data_loss)}
    return Outputs(Systems(Settings(systems=systems, streams=streams)), writing())


def folder(kept: Kept) -> Folder:
    return cast(Folder, kept)


def set_back(log: Log, to: int) -> None:
    """Let the stream end with the entry of that number."""
    for path in (Path(log.root) / "out" / "0" / "manifest").glob("[0-9]*.json"):
        if int(path.stem) > to:
            path.unlink()


def entry_with_end(log: Log, end: int) -> int:
    number = 0
    while (entry := log.entry("out", 0, number)) is not None and entry.base + entry.rows < end:
        number += 1
    return number


def test_an_output_that_ends_where_it_did_is_right(log: Log, kept: Kept) -> None:
    outputs(log).note(folder(kept), 4)
    assert kept.noted == {"streams": {"out": {"0": 5}}, "tables": {}}
    append(log, "out", [records([b"x"] * 1)])  # others may write it, too
    outputs(log).compare(folder(kept))


def test_an_output_that_was_set_back_is_refused(log: Log, kept: Kept) -> None:
    outputs(log).note(folder(kept), 4)
    set_back(log, entry_with_end(log, 3))
    with pytest.raises(StateError, match=r"embedded/out/0 ends at offset 3, but it used to end at 5:") as caught:
        outputs(log).compare(folder(kept))
    assert "offsets 3 to 4" in caught.value.what
    assert "newest copy of stream 'out'" in caught.value.cure
    assert 'set [streams.out] on_data_loss = "earliest"' in caught.value.cure


def test_an_output_that_is_gone_is_said_to_be(log: Log, kept: Kept) -> None:
    outputs(log).note(folder(kept), 4)
    shutil.rmtree(Path(log.root) / "out")
    with pytest.raises(StateError, match=r"the output stream 'out' .* is gone from /.*\n  restore it"):
        outputs(log).compare(folder(kept))


def test_nothing_is_noted_twice(log: Log, kept: Kept) -> None:
    mine = outputs(log)
    for _ in range(3):
        mine.note(folder(kept), 4)
    append(log, "out", [records([b"x"] * 1)])
    mine.note(folder(kept), 4, last=True)
    assert (kept.writes, kept.noted["streams"]) == (2, {"out": {"0": 6}})


def test_a_lane_that_never_noted_anything_begins(log: Log, kept: Kept) -> None:
    outputs(log).compare(folder(kept))


@pytest.mark.parametrize(
    ("error", "trouble"),
    [
        (AnabranchError, "[Errno 5] Input/output error"),
        (Py4JError, "org.apache.hadoop.fs.s3a.AWSServiceIOException: PUT outputs.json: Status Code: 503"),
    ],
)
def test_a_lane_goes_on_if_its_note_cannot_be_written_and_writes_it_later(
    log: Log, kept: Kept, error: type[Exception], trouble: str
) -> None:
    mine = outputs(log)
    kept.error, kept.trouble = error, trouble
    mine.note(folder(kept), 4)
    assert (kept.writes, kept.noted) == (0, {})
    kept.trouble = ""
    mine.note(folder(kept), 4)
    assert kept.noted["streams"] == {"out": {"0": 5}}


def test_a_lane_waits_for_room_for_its_note(log: Log, kept: Kept) -> None:
    kept.trouble = "[Errno 28] No space left on device"
    with pytest.raises(AnabranchError, match="No space left"):
        outputs(log).note(folder(kept), 4)


@pytest.mark.parametrize(("on_data_loss", "end"), [("fail", 5), ("earliest", 3)])
def test_an_output_that_is_set_back_while_its_lane_runs_is_refused_later(
    log: Log, kept: Kept, on_data_loss: Literal["fail", "earliest"], end: int
) -> None:
    mine = outputs(log, on_data_loss)
    mine.note(folder(kept), 4)
    set_back(log, entry_with_end(log, 3))
    mine.note(folder(kept), 4, last=True)
    assert kept.noted["streams"] == {"out": {"0": end}}
    if on_data_loss == "fail":
        with pytest.raises(StateError, match="ends at offset 3, but it used to end at 5"):
            outputs(log).compare(folder(kept))
    append(log, "out", [records([b"x"] * 4)])
    mine.note(folder(kept), 4, last=True)
    assert kept.noted["streams"] == {"out": {"0": 7}}


class Sums:
    """A table that has committed batches for the lane, and loses some of them."""

    def __init__(self) -> None:
        self.batch = -1
        self.away = False

    def last(self, *_: object) -> int:
        if self.away:
            raise AnabranchError("the table 'sums' can't be reached")
        return self.batch

    def fence(self, *_: object) -> None:
        pass

    def leave(self, *_: object) -> None:
        pass

    def commit(self, by: Owner, batch: int, parts: object) -> None:
        marks.check(Mark(1, self.batch), by, "the table 'sums'")
        self.batch = batch


SUMMING = msgspec.structs.replace(writing(), outputs={"sums": 1})


@pytest.fixture
def sums(monkeypatch: pytest.MonkeyPatch) -> Iterator[Sums]:
    table = Sums()
    monkeypatch.setattr(Systems, "tables", lambda *_: {"sums": table})
    monkeypatch.setattr(Systems, "is_table", lambda *_: True)
    yield table
    committed.forget(SUMMING.job, SUMMING.id, "sums")


def summing() -> Outputs:
    """As a new process has them."""
    return Outputs(Systems(Settings()), SUMMING)


def publishing(table: Sums) -> TablePublisher:
    """As a new attempt of the lane has it."""
    return TablePublisher(SUMMING, 1, {"sums": cast(Table, table)})


PARTS = [Written(stream="sums", partition=0, slot=0, rows=1, ref=b"")]


def test_each_batch_that_a_table_has_committed_is_noted(sums: Sums, kept: Kept) -> None:
    mine, publisher = summing(), publishing(sums)
    publisher.take(new=True)
    for batch in range(4):
        publisher.publish(batch, PARTS, {})
        mine.note(folder(kept), batch)
    sums.batch = 2
    with pytest.raises(StateError, match=r"contains batches of lane \S+ up to 2, but .* up to 3: .* failed over"):
        summing().compare(folder(kept))


@pytest.mark.parametrize("away", [False, True])
def test_a_batch_that_a_table_loses_before_it_is_noted_is_noted_nevertheless(
    sums: Sums, kept: Kept, away: bool
) -> None:
    mine, publisher = summing(), publishing(sums)
    publisher.take(new=True)
    for batch in range(2):
        publisher.publish(batch, PARTS, {})
    sums.batch, sums.away = 0, away  # after a fail-over to a replica that lagged
    mine.note(folder(kept), 1, last=True)
    assert kept.noted["tables"] == {"sums": 1}
    sums.away = False
    with pytest.raises(StateError, match="up to 0, but it used to contain them up to 1"):
        summing().compare(folder(kept))


def test_what_tables_contain_is_noted_even_if_a_stream_cannot_be_looked_up(
    sums: Sums, kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise AnabranchError("no broker answers")

    monkeypatch.setattr(Systems, "is_table", lambda _, output: output == "sums")
    monkeypatch.setattr(Systems, "named", fails)
    both = msgspec.structs.replace(SUMMING, outputs={"sums": 1, "out": 1})
    publisher = publishing(sums)
    publisher.take(new=True)
    publisher.publish(0, PARTS, {})
    Outputs(Systems(Settings()), both).note(folder(kept), 0, last=True)
    assert kept.noted["tables"] == {"sums": 0}


def test_a_batch_that_may_be_repeated_is_not_noted(sums: Sums, kept: Kept) -> None:
    mine, publisher = summing(), publishing(sums)
    publisher.take(new=True)
    publisher.publish(0, PARTS, {})
    publisher.publish(1, PARTS, {})
    mine.note(folder(kept), 0)
    assert kept.noted["tables"] == {"sums": 0}
    mine.note(folder(kept), 1, last=True)
    assert kept.noted["tables"] == {"sums": 1}


@pytest.mark.parametrize("attempts", [1, 2])
def test_a_table_that_has_lost_a_batch_takes_no_later_one(sums: Sums, attempts: int) -> None:
    """In another attempt of the lane neither."""
    publisher = publishing(sums)
    publisher.take(new=True)
    for batch in (0, 2):  # batch 1 had no rows
        publisher.publish(batch, PARTS, {})
    sums.batch = 0
    if attempts == 2:
        publisher = publishing(sums)
        publisher.take(new=False)
    with pytest.raises(StateError, match="the rows of batches 1 to 2 are missing"):
        publisher.publish(3, PARTS, {})
    assert sums.batch == 0
    publisher.publish(2, PARTS, {})  # the lost batch itself, which the lane repeats
    publisher.publish(3, PARTS, {})
    assert sums.batch == 3
    sums.batch = -1
    publisher.take(new=True)  # the job was reset
    publisher.publish(0, PARTS, {})


def test_a_lane_that_starts_knows_from_its_note_and_its_tables_what_they_contain(sums: Sums, kept: Kept) -> None:
    kept.noted = {"tables": {"sums": 4}}
    sums.batch = 5
    publisher = publishing(sums)
    summing().compare(folder(kept))
    publisher.take(new=False)
    sums.batch = 4
    with pytest.raises(StateError, match="used to contain them up to 5"):
        publisher.publish(6, PARTS, {})


def test_a_lane_that_goes_on_from_a_copy_of_a_folder_does_not_expect_its_predecessors_batches_in_a_table(
    sums: Sums, kept: Kept
) -> None:
    kept.noted = {"streams": {}, "tables": {"sums": 4}}  # as the predecessor has noted them
    successor = Outputs(Systems(Settings()), msgspec.structs.replace(SUMMING, first_batch=5))
    successor.compare(folder(kept))
    publisher = publishing(sums)
    publisher.take(new=True)
    publisher.publish(5, PARTS, {})
    successor.note(folder(kept), 5)
    assert kept.noted["tables"] == {"sums": 5}
    sums.batch = -1
    with pytest.raises(StateError, match="used to contain them up to 5"):
        successor.compare(folder(kept))


def test_a_lane_that_is_set_back_together_with_its_table_writes_later_batches_again(sums: Sums, kept: Kept) -> None:
    publisher = publishing(sums)
    publisher.take(new=True)
    for batch in range(11):
        publisher.publish(batch, PARTS, {})
    kept.noted, kept.batch, sums.batch = {"tables": {"sums": 5}}, 5, 5  # both were restored, and the process still runs
    summing().compare(folder(kept))
    publisher = publishing(sums)
    publisher.take(new=False)
    publisher.publish(11, PARTS, {})  # this time, batches 6 to 10 had no rows
    assert sums.batch == 11
    sums.batch = 5
    with pytest.raises(StateError, match="used to contain them up to 11"):
        publisher.publish(12, PARTS, {})


def test_a_lane_that_starts_again_forgets_no_batch_that_its_folder_has(sums: Sums, kept: Kept) -> None:
    publisher = publishing(sums)
    publisher.take(new=True)
    for batch in range(2):
        publisher.publish(batch, PARTS, {})
    kept.noted, kept.batch, sums.batch = {"tables": {"sums": 0}}, 1, 0  # only the table has lost batch 1
    summing().compare(folder(kept))
    publisher = publishing(sums)
    publisher.take(new=False)
    with pytest.raises(StateError, match="used to contain them up to 1"):
        publisher.publish(2, PARTS, {})
