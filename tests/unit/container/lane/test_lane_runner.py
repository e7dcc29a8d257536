"""How a lane ends that nobody has closed."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from anabranch.container.checkpoint import damage
from anabranch.container.checkpoint.lane_folders import LaneFolders
from anabranch.container.error_text import Failure
from anabranch.container.lane import attempt, error_attribution, events, lifecycle, monitor, queries
from anabranch.container.lane.events import Event, FolderTaken
from anabranch.container.lane.handover import Handover
from anabranch.container.lane.life import Life
from anabranch.container.lane.lifecycle import LifeState
from anabranch.container.lane.runner import LaneRunner
from anabranch.container.restarts import Step
from anabranch.container.retries import Standstill
from anabranch.errors import DamagedError
from anabranch.event_time.progress import Progress
from anabranch.model.lane import Lane
from anabranch.protocol.drain import DrainOrder
from anabranch.protocol.lane_report import LaneReport
from anabranch.spark.functions import isolation
from anabranch.spark.query import clock
from anabranch.telemetry import batches
from tests.unit.coordinator.helpers import lane


class Folder:
    """One with nothing pending."""

    uri = "s3a://bucket/lanes/delays/0-a/3"
    pending = False

    def __init__(self) -> None:
        self.noted: list[Progress] = []

    def note_progress(self, left: Progress, ssps: object) -> None:
        self.noted.append(left)

    def positions(self) -> dict[str, dict[int, int]]:
        return {}

    def committed(self) -> int:
        return 6

    def release(self) -> None:
        pass

    def note_starting(self, offsets: dict[str, int]) -> dict[str, int]:
        return offsets

    def planned(self) -> int:
        return -1


class Inputs:
    def __init__(self, *_: object) -> None:
        pass

    ssps = ()

    def ends(self) -> dict[Any, int]:
        return {}

    def take(self, folder: object) -> None:
        pass

    def check(self, folder: object) -> None:
        pass

    def tell(self, positions: object) -> None:
        pass


class Outputs:
    def __init__(self, *_: object) -> None:
        pass

    def compare(self, folder: object) -> None:
        pass

    def note(self, folder: object, batch: int, *, last: bool = False) -> None:
        pass


class LocalLaneFolders:
    systems = None

    def __init__(self, clocks: Path) -> None:
        self._clocks = clocks
        self.its = Folder()

    def clock(self, lane: Any) -> Path:
        return self._clocks / lane.id

    def folder(self, lane: object, epoch: int, unless: Callable[[], bool], checked: bool, ahead: bool) -> Folder:
        return self.its

    def note_used(self, folder: Folder) -> None:
        pass

    def explained(self, failed: Failure) -> Failure:
        return failed


class Begun:
    """What was begun ahead of the lane."""

    abandoned = False

    def abandon(self) -> None:
        self.abandoned = True


def made(
    lane_folders: LocalLaneFolders, handover: Handover | None = None, build: Any = None, **given: Any
) -> LaneRunner:
    given |= {} if handover is None else {"handover": handover}
    return LaneRunner(
        cast(LaneFolders, lane_folders), lane("0-a", epoch=3), 3, build, dict, None, Standstill(math.inf), **given
    )


@pytest.fixture
def lane_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalLaneFolders:
    monkeypatch.setattr(attempt, "Inputs", Inputs)
    monkeypatch.setattr(monitor, "Outputs", Outputs)
    return LocalLaneFolders(tmp_path)


@pytest.mark.parametrize("closing", [False, True])
def test_it_ends_though_nobody_knows_its_folder_and_says_that_there_is_more_to_do(
    closing: bool, lane_folders: LocalLaneFolders
) -> None:
    runner = made(lane_folders)
    if closing:
        runner.close()
    runner.start()
    assert not runner.join(0.5)
    runner.stop()
    assert runner.join(5)
    told = runner.report
    assert (told.phase, told.attempt.pending, told.progress.batch, told.attempt.folder_epoch, told.error) == (
        "ended",
        True,
        6,
        3,
        None,
    )
    assert not lane_folders.its.noted


def test_a_lane_that_never_begins_abandons_what_was_begun_ahead_of_it(lane_folders: LocalLaneFolders) -> None:
    begun: Any = Begun()
    runner = made(lane_folders, Handover(prestarted=lambda: begun))
    runner.start()
    assert not runner.join(0.5)
    assert not begun.abandoned
    runner.stop()
    assert runner.join(5)
    assert begun.abandoned
    assert runner.report.phase == "ended"


class ItsOutputs:
    """The outputs of a query that has run no batch. ``did``: how they were left."""

    put_aside = 0

    def __init__(self) -> None:
        self.did: list[str] = []
        self.time = self

    def begin(self, last: object, *, pending: bool) -> None:
        pass

    def settle(self) -> None:
        self.did.append("settle")

    def leave_tables(self) -> None:
        self.did.append("leave tables")


class ItsPlan:
    real_time, own = True, frozenset[str]()


class MadeQuery:
    def __init__(self) -> None:
        self.plan, self.outputs = ItsPlan(), ItsOutputs()
        self.checkpoint_sync = SimpleNamespace(sync=lambda: self.outputs.did.append("sync"))


def test_a_lane_that_closes_leaves_its_tables_without_waiting_for_their_readers(lane_folders: LocalLaneFolders) -> None:
    query = MadeQuery()
    runner = made(lane_folders, build=lambda *_: query)
    runner.close()
    runner.acknowledge(upstream_ended=False)
    runner.start()
    assert runner.join(5)
    assert (runner.report.phase, runner.report.error) == ("ended", None)
    assert query.outputs.did == ["leave tables", "sync"], "a power cut could take the state of its last batch away"


class TimedOutputs(ItsOutputs):
    """Those of a lane whose last batch, in an earlier attempt, had a watermark."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def begin(self, last: object, *, pending: bool) -> None:
        clock.Clock(Progress(watermark=5), {}, {}).write(self._path)


class DrainingQuery(MadeQuery):
    pacer = SimpleNamespace(is_known=False)

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.plan.real_time, self.outputs = False, TimedOutputs(path)

    def take(self, last: object) -> None:
        pass


def test_a_lane_that_ends_before_a_batch_has_ended_does_not_forget_its_event_time(
    lane_folders: LocalLaneFolders,
) -> None:
    query = DrainingQuery(lane_folders.clock(lane("0-a")))
    runner = made(lane_folders, build=lambda *_: query)
    runner.drain(DrainOrder(uuid="1"))
    runner.acknowledge(upstream_ended=True)
    runner.stop()
    runner.start()
    assert runner.join(5)
    assert (runner.report.phase, runner.report.error) == ("ended", None)
    assert [noted.watermark for noted in lane_folders.its.noted] == [5]


def broken(*_: object, **__: object) -> None:
    raise RuntimeError("one more thing is broken")


@pytest.mark.parametrize(
    ("module", "name"),
    [
        (error_attribution, "attributed"),
        (isolation, "note"),
        (clock, "forget"),
        (queries.Queries, "end_analysis"),
        (queries.Queries, "abandon_prestarted"),
    ],
)
def test_a_failure_is_reported_whatever_else_fails(
    module: Any, name: str, lane_folders: LocalLaneFolders, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen: a lane whose thread had ended by an error was "starting" for good."""
    monkeypatch.setattr(module, name, broken)
    monkeypatch.setattr(lane_folders, "folder", full_disk)
    runner = made(lane_folders)
    runner.start()
    assert runner.join(5)
    assert runner.report.phase == "failed"
    assert str(runner.report.error).startswith("OSError: [Errno 28] disk full: '/data'")
    assert runner.life.state.ended


def full_disk(*_: object) -> Folder:
    raise OSError(28, "disk full", "/data")


def test_an_observer_of_failures_is_told_which_attempt_failed(
    lane_folders: LocalLaneFolders, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[int] = []

    class Observer:
        def committed(self, *_: object) -> None: ...

        def failed(self, _: Lane, report: LaneReport) -> None:
            told.append(report.attempt.number)

    monkeypatch.setattr(lane_folders, "folder", full_disk)
    life = Life(lane("0-a", epoch=3))
    batches.observed_by(Observer())
    try:
        for _ in range(2):
            runner = made(lane_folders, life=life)
            runner.start()
            assert runner.join(5)
            life.tell(events.FailureJudged(Step.ATTEMPT))
            life.tell(events.Run(3))
    finally:
        batches.observed_by(None)
    assert told == [1, 2]


def test_a_lane_fails_if_what_it_calls_ends_the_thread(
    lane_folders: LocalLaneFolders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lane_folders, "folder", lambda *_: sys.exit("a function of the job has had enough"))
    runner = made(lane_folders)
    runner.start()
    assert runner.join(5)
    assert runner.report.phase == "failed"
    assert str(runner.report.error).startswith("SystemExit: a function of the job has had enough")


class Query:
    """One that runs until it is stopped."""

    isActive = True

    def __init__(self, *, stops: bool) -> None:
        self.stops = stops

    def stop(self) -> None:
        if not self.stops:
            broken()
        self.isActive = False


@pytest.mark.parametrize("stops", [True, False])
def test_the_folder_of_a_lane_whose_query_still_runs_does_not_count_as_damaged(
    stops: bool, lane_folders: LocalLaneFolders, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query changes its folder at any moment, so a file can seem to be missing."""
    query: Any = Query(stops=stops)

    def fails(self: attempt.Attempt, folder: Any) -> None:
        self.folder_taken = self.folder_in_use = folder
        self.started = query
        raise RuntimeError("the query runs")

    def check(*_: object) -> None:
        if query.isActive:
            raise DamagedError("offsets/7 is missing", "restore it")

    monkeypatch.setattr(attempt.Attempt, "take_folder", fails)
    monkeypatch.setattr(damage, "check", check)
    runner = made(lane_folders)
    runner.start()
    assert runner.join(5)
    assert query.isActive is not stops
    assert str(runner.report.error).startswith("RuntimeError: the query runs")


@pytest.mark.parametrize("kind", [RuntimeError, SystemExit])
def test_a_fault_in_a_lanes_own_thread_fails_the_lane(
    kind: type[BaseException], lane_folders: LocalLaneFolders, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = lifecycle.step

    def breaks_once(state: LifeState, event: Event) -> lifecycle.Stepped:
        if isinstance(event, FolderTaken):
            raise kind("one more thing is broken")
        return step(state, event)

    monkeypatch.setattr(lifecycle, "step", breaks_once)
    runner = made(lane_folders)
    runner.start()
    assert runner.join(5)
    assert runner.report.phase == "failed"
    assert "one more thing is broken" in str(runner.report.error)
