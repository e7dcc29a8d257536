"""Keeping standbys: each again when its lane has committed more, and whatever goes wrong is told."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from anabranch.container.checkpoint import copying
from anabranch.container.checkpoint.standbys import Standbys
from anabranch.protocol.standby import StandbyOrder, StandbyReport
from tests.unit.coordinator.helpers import Clock, wait_for


class Folder:
    """Of a lane that has committed so many batches."""

    def __init__(self) -> None:
        self.last, self.fails = 3, ""
        self.did: list[str] = []

    def committed(self) -> int:
        return self.last

    def standby(self, number: int) -> Folder:
        self.number = number
        return self

    def refresh(self, standby: Folder) -> int:
        if self.fails:
            raise OSError(self.fails)
        self.did.append(f"refresh {standby.number}")
        return self.last

    def remove(self) -> None:
        self.did.append(f"remove {self.number}")


COPY = StandbyOrder(lane="0-a", epoch=3, number=1)
REPORT = StandbyReport(lane="0-a", epoch=3, number=1)


class Kept:
    def __init__(self) -> None:
        self.folder, self.clock = Folder(), Clock()
        self.woken = 0
        its: Any = lambda lane, epoch: self.folder if (lane, epoch) == ("0-a", 3) else None  # noqa: E731
        self.standbys = Standbys(its, self.wake, self.clock, every=0.005)

    def wake(self) -> None:
        self.woken += 1

    def is_told(self, **changes: Any) -> None:
        wait_for(lambda: self.standbys.reports == (msgspec.structs.replace(REPORT, **changes),))


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[Kept]:
    monkeypatch.setattr(copying, "standby", Folder.standby)
    monkeypatch.setattr(copying, "refresh", Folder.refresh)
    made = Kept()
    yield made
    made.standbys.end()


def test_a_standby_is_brought_up_to_date_when_its_lane_has_committed_more(kept: Kept) -> None:
    kept.standbys.want([COPY])
    kept.is_told(batch=3)
    time.sleep(0.03)
    assert kept.folder.did == ["refresh 1"]
    kept.folder.last = 4
    kept.is_told(batch=4)
    assert kept.folder.did == ["refresh 1"] * 2
    assert kept.woken == 2


def test_what_goes_wrong_is_told_and_tried_again_after_a_while(kept: Kept) -> None:
    kept.folder.fails = "No space left on device"
    kept.standbys.want([COPY])
    kept.is_told(error="OSError: No space left on device")
    kept.folder.fails = ""
    time.sleep(0.03)
    assert kept.folder.did == []
    kept.clock.at += 31
    kept.is_told(batch=3)


def test_an_error_with_an_id_of_its_own_each_time_is_logged_once(kept: Kept) -> None:
    with capture_logs() as lines:
        for number in range(3):
            kept.folder.fails = f"SlowDown (request {number})"
            kept.clock.at += 31
            kept.standbys.want([COPY])
            kept.is_told(error=f"OSError: SlowDown (request {number})")
    assert [line["error"] for line in lines] == ["SlowDown (request 0)"]


def test_one_that_is_held_is_left_as_it_is(kept: Kept) -> None:
    kept.standbys.want([COPY])
    kept.is_told(batch=3)
    kept.standbys.want([msgspec.structs.replace(COPY, to="hold")])
    kept.folder.last = 5
    time.sleep(0.03)
    kept.is_told(batch=3)
    assert kept.folder.did == ["refresh 1"]


def test_one_that_is_removed_is_reported_no_more_and_one_that_is_forgotten_stays(kept: Kept) -> None:
    kept.standbys.want([COPY])
    kept.is_told(batch=3)
    kept.standbys.want([msgspec.structs.replace(COPY, to="remove")])
    wait_for(lambda: kept.standbys.reports == ())
    assert kept.folder.did == ["refresh 1", "remove 1"]
    kept.standbys.want([COPY])
    wait_for(lambda: kept.folder.did[2:] == ["refresh 1"])
    kept.standbys.want([])
    assert kept.standbys.reports == ()
    time.sleep(0.03)
    assert kept.folder.did == ["refresh 1", "remove 1", "refresh 1"]


def test_what_others_keep_is_neither_held_nor_removed(kept: Kept) -> None:
    kept.standbys.want([msgspec.structs.replace(COPY, to="hold"), msgspec.structs.replace(COPY, number=2, to="remove")])
    time.sleep(0.03)
    assert (kept.standbys.reports, kept.folder.did) == ((), [])
