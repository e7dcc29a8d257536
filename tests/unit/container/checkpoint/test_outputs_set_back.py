"""Outputs that hold less than a lane knows to be in them: compared with what was noted after its last batches."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, cast

import msgspec
import pytest
from py4j.protocol import Py4JError

from anabranch.config import EmbeddedSettings, Settings, StreamSettings, SystemsSettings
from anabranch.container.checkpoint.folder import Folder
from anabranch.container.checkpoint.output_ends import Outputs
from anabranch.errors import AnabranchError, StateError
from anabranch.model.lane import Lane
from anabranch.systems.embedded import Log, append
from anabranch.systems.systems import Systems
from tests.unit.coordinator.helpers import FIRST, lane
from tests.unit.systems.embedded.helpers import records


class Kept:
    """The part of a lane's folder that outputs are noted in."""

    def __init__(self) -> None:
        self.noted: dict[str, Any] = {}
        self.writes = 0
        self.trouble = ""
        self.error: type[Exception] = AnabranchError

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
    outputs(log).note(folder(kept))
    assert kept.noted == {"streams": {"out": {"0": 5}}, "tables": {}}
    append(log, "out", [records([b"x"] * 1)])  # others may write it, too
    outputs(log).compare(folder(kept))


def test_an_output_that_was_set_back_is_refused(log: Log, kept: Kept) -> None:
    outputs(log).note(folder(kept))
    set_back(log, entry_with_end(log, 3))
    with pytest.raises(StateError, match=r"embedded/out/0 ends at offset 3, but it used to end at 5:") as caught:
        outputs(log).compare(folder(kept))
    assert "offsets 3 to 4" in caught.value.what
    assert "newest copy of stream 'out'" in caught.value.cure
    assert 'set [streams.out] on_data_loss = "earliest"' in caught.value.cure


def test_an_output_that_is_gone_is_said_to_be(log: Log, kept: Kept) -> None:
    outputs(log).note(folder(kept))
    shutil.rmtree(Path(log.root) / "out")
    with pytest.raises(StateError, match=r"the output stream 'out' .* is gone from /.*\n  restore it"):
        outputs(log).compare(folder(kept))


def test_nothing_is_noted_twice(log: Log, kept: Kept) -> None:
    mine = outputs(log)
    for _ in range(3):
        mine.note(folder(kept))
    append(log, "out", [records([b"x"] * 1)])
    mine.note(folder(kept), last=True)
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
    mine.note(folder(kept))
    assert (kept.writes, kept.noted) == (0, {})
    kept.trouble = ""
    mine.note(folder(kept))
    assert kept.noted["streams"] == {"out": {"0": 5}}


def test_a_lane_waits_for_room_for_its_note(log: Log, kept: Kept) -> None:
    kept.trouble = "[Errno 28] No space left on device"
    with pytest.raises(AnabranchError, match="No space left"):
        outputs(log).note(folder(kept))


@pytest.mark.parametrize(("on_data_loss", "end"), [("fail", 5), ("earliest", 3)])
def test_an_output_that_is_set_back_while_its_lane_runs_is_refused_later(
    log: Log, kept: Kept, on_data_loss: Literal["fail", "earliest"], end: int
) -> None:
    mine = outputs(log, on_data_loss)
    mine.note(folder(kept))
    set_back(log, entry_with_end(log, 3))
    mine.note(folder(kept), last=True)
    assert kept.noted["streams"] == {"out": {"0": end}}
    if on_data_loss == "fail":
        with pytest.raises(StateError, match="ends at offset 3, but it used to end at 5"):
            outputs(log).compare(folder(kept))
    append(log, "out", [records([b"x"] * 4)])
    mine.note(folder(kept), last=True)
    assert kept.noted["streams"] == {"out": {"0": 7}}


def test_a_table_that_is_set_back_while_its_lane_runs_is_refused_later(
    log: Log, kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = [4]
    table = SimpleNamespace(last=lambda *_: last[0])
    monkeypatch.setattr(Systems, "tables", lambda *_: {"sums": table})
    mine = outputs(log)
    mine.note(folder(kept))
    last[0] = 2
    mine.note(folder(kept), last=True)
    assert kept.noted["tables"] == {"sums": 4}
    with pytest.raises(StateError, match=r"the table 'sums' contains batches .* up to 2, but it used to"):
        outputs(log).compare(folder(kept))
