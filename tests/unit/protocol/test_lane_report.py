"""A lane's report is in parts; older containers and coordinators have its fields side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from anabranch.errors import UnsupportedFormatError
from anabranch.model.document import compact, decode
from anabranch.protocol.container import Heartbeat
from anabranch.protocol.flat_report import flattened
from anabranch.protocol.lane_report import PART_OF, PARTS, BatchPhase, LanePhase, LaneReport
from anabranch.protocol.status import LaneStatus
from tests.support.reports import lane_report
from tests.unit.coordinator.helpers import lane

FLAT = (Path(__file__).parent / "flat_heartbeat.json").read_bytes()
"""A heartbeat of the commit c5560e7c, in which each field of the report has a value that isn't its default."""
LATER = {"batchTimes", "batch_times", "replaySeconds", "replay_seconds", "slots", "throughput", "times"}
"""Fields of a report that came after that commit, as they are named here and in JSON."""


def plain(raw: bytes) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(raw)
    return found


def flat_report() -> dict[str, Any]:
    (found,) = plain(FLAT)["lanes"]
    return dict(found)


def test_each_field_has_a_name_of_its_own() -> None:
    fields = [name for kind in PARTS.values() for name in kind.__struct_fields__ if name != "extra"]
    assert sorted(fields) == sorted(PART_OF)
    assert not set(fields) & set(LaneReport.__struct_fields__)
    assert {name for name in LaneReport.__struct_fields__ if name in PARTS} == set(PARTS)


def test_a_report_of_an_older_container_is_read() -> None:
    (found,) = decode(FLAT, Heartbeat).lanes
    assert (found.lane, found.phase, found.error, found.fenced) == ("0-3fa85b12", LanePhase.ENDED, "no", True)
    assert (found.attempt.number, found.attempt.folder_epoch, found.attempt.run) == (4, 3, "r-1")
    assert (found.progress.batch, found.progress.positions) == (7, {"embedded/in/0": 41})
    assert found.progress.batch_progress is not None
    assert found.progress.batch_progress.phase is BatchPhase.FUNCTIONS
    assert (found.load.slowest_seconds, found.load.spent) == (0.75, {"reading": 0.25})
    assert (found.event_time.watermark, found.event_time.idle) == (1_700_000_000_000, ("embedded/in/1",))
    assert (found.drain.halted, found.drain.overdue) == ("u-1", True)
    for part, kind in PARTS.items():
        its, empty = getattr(found, part), kind()
        same = {name for name in PART_OF if PART_OF[name] == part and getattr(its, name) == getattr(empty, name)}
        assert same <= LATER


def test_what_an_older_coordinator_gets_is_what_an_older_container_sends() -> None:
    (sent,) = plain(compact(flattened(decode(FLAT, Heartbeat))))["lanes"]
    assert {name: value for name, value in sent.items() if name not in LATER} == flat_report()


def test_a_report_in_parts_survives_the_wire() -> None:
    beat = decode(FLAT, Heartbeat)
    assert decode(compact(beat), Heartbeat) == beat
    (sent,) = plain(compact(beat))["lanes"]
    parts = {"attempt", "progress", "load", "eventTime", "drain"}
    assert set(sent) == {"lane", "phase", "error", "fenced", "warnings"} | parts


def test_fields_that_only_some_versions_know() -> None:
    """From the first versions, which had fewer; and unknown ones, which are kept."""
    few = {"lane": "0-a", "phase": "running", "batch": 3, "attempt": 2, "future": [1]}
    found = LaneReport.from_builtins(few)
    assert found == lane_report("0-a", "running", batch=3, number=2, extra=found.extra)
    assert found.to_builtins()["future"] == [1]
    ahead = {"lane": "0-a", "phase": "running", "progress": {"batch": 3, "future": 1}}
    assert LaneReport.from_builtins(ahead).to_builtins()["progress"]["future"] == 1


def test_a_status_of_an_older_coordinator_is_read() -> None:
    told = {"lane": lane("0-a").to_builtins(), "report": flat_report()}
    assert LaneStatus.from_builtins(told).lag == 3


@pytest.mark.parametrize(
    ("changes", "where"),
    [({"positions": {"embedded/in/0": "far"}}, r"progress\.positions"), ({"attempt": "second"}, r"attempt\.number")],
)
def test_what_is_wrong_in_a_flat_report(changes: dict[str, Any], where: str) -> None:
    beat = {**plain(FLAT), "lanes": [{**flat_report(), **changes}]}
    with pytest.raises(UnsupportedFormatError, match=where):
        decode(msgspec.json.encode(beat), Heartbeat)


def test_a_changed_report() -> None:
    report = lane_report("0-a", LanePhase.RUNNING, batch=3, watermark=7)
    after = report.changed(phase=LanePhase.ENDED, batch=4, pending=True)
    assert (after.phase, after.progress.batch, after.attempt.pending, after.event_time.watermark) == (
        "ended",
        4,
        True,
        7,
    )
    with pytest.raises(TypeError):
        report.changed(colour="red")
