"""How long a change is expected to hold up output."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.jobs import batch_loss, job_events, pause_estimate
from anabranch.coordinator.jobs.batch_loss import BatchLoss
from anabranch.coordinator.jobs.change_kind import Kind, kind_of
from anabranch.coordinator.jobs.measured_change import MeasuredChange
from anabranch.coordinator.jobs.pause_experience import Experience, usual_overhead
from anabranch.coordinator.store import Store
from anabranch.model.lane import Lane, Rewind
from anabranch.model.ssp import SSP
from anabranch.pace import stored_sizes
from anabranch.pace.break_off_cost import BROKEN_OFF, mean_loss
from anabranch.pace.stored_sizes import StoredSize
from anabranch.protocol.commands import ScaleRequest
from anabranch.protocol.container import BatchDecision
from anabranch.protocol.lane_report import BatchProgress, BatchTimes, LanePhase, LaneReport
from tests.support.reports import lane_report
from tests.unit.coordinator.helpers import FLIGHTS, lane
from tests.unit.coordinator.workers import JOB, Worker, start


def told(name: str, **fields: Any) -> dict[str, LaneReport]:
    return {name: lane_report(lane=name, phase=LanePhase.RUNNING, **fields)}


def expected(
    closing: list[Lane],
    reports: dict[str, LaneReport],
    kind: Kind | None,
    shown: Experience | None = None,
    following: Sequence[Lane] = (),
    **how: Any,
) -> float:
    return pause_estimate.predicted(closing, following, reports, shown, kind=kind, **how).seconds


OTHER = SSP(system="embedded", stream="flights", partition=1)


def reading(before: Lane, *ssps: SSP) -> Lane:
    return msgspec.structs.replace(before, ssps=ssps)


@pytest.mark.parametrize(
    ("usual", "stateful", "how", "seconds"),
    [
        (0.0, False, Kind.SAME, 0.6),
        (0.0, True, Kind.SAME, 1.2),
        (10.0, False, Kind.FACTOR, 10.0 + usual_overhead(Kind.FACTOR, False)),
        (0.5, True, Kind.NEW, 0.5 + usual_overhead(Kind.NEW, True)),
    ],
)
def test_a_pause_is_a_batch_and_how_lanes_of_that_kind_begin(
    usual: float, stateful: bool, how: Kind, seconds: float
) -> None:
    reports = told("0-a", usual_seconds=usual)
    assert expected([lane("0-a", stateful=stateful)], reports, how) == pytest.approx(seconds)


def test_the_slowest_lane_counts_and_where_nothing_closes_nothing_stands_still() -> None:
    reports = told("0-a", usual_seconds=1.0) | told("0-b", usual_seconds=7.0)
    assert expected([lane("0-a"), lane("0-b")], reports, Kind.SAME) == pytest.approx(7.6)
    assert expected([], reports, Kind.SAME) == 0.0
    assert expected([lane("0-c")], reports, Kind.SAME) == pytest.approx(0.6)


@pytest.mark.parametrize(
    ("following", "how"),
    [
        ([lane("c"), lane("d", seat="1")], Kind.SAME),
        ([lane("c", factor=4), lane("d", seat="1", factor=4)], Kind.FACTOR),
        ([lane("c", rewind=Rewind(to={})), lane("d", seat="1")], Kind.REWOUND),
        ([lane("c"), reading(lane("d", seat="1"), FLIGHTS, OTHER)], Kind.EXPANDED),
        ([lane("c")], Kind.MOVED),
        ([lane("c"), lane("d", seat="2")], Kind.NEW),
        ([lane("c", deployment=2), lane("d", seat="1", deployment=2)], Kind.VERSION),
    ],
)
def test_how_lanes_begin_that_follow_others(following: list[Lane], how: Kind) -> None:
    assert kind_of([lane("a"), lane("b", seat="1")], following) is how


def test_a_container_that_keeps_other_lanes_is_not_new() -> None:
    before = [lane("a"), lane("b", seat="1")]
    assert kind_of(before[1:], [lane("c", predecessors=("b",))], before) is Kind.MOVED
    assert kind_of(before[1:], [lane("c", seat="2", predecessors=("b",))], before) is Kind.NEW
    following = [lane("c", predecessors=("b",))]
    found = pause_estimate.predicted(before[1:], following, {}, present=before)
    assert (found.kind, found.seconds) == (Kind.MOVED, usual_overhead(Kind.MOVED, False))


def test_a_plan_tells_the_pause_and_which_seats_are_free() -> None:
    coordinator = Coordinator(Store("sqlite://"), lease=10, grace=2)
    coordinator.start(start())
    Worker(coordinator).turns()
    told = coordinator.scale(JOB, ScaleRequest(containers=2, dry=True))
    assert (told.pause, told.free) == (pytest.approx(usual_overhead(Kind.NEW, True)), ("1",))
    assert coordinator.scale(JOB, ScaleRequest(factor=4, dry=True)).free == ()


@pytest.mark.parametrize(
    ("seconds", "left", "more"),
    [
        (2.0, 30.0, 2.0 + BROKEN_OFF),  # it is broken off: nothing of its 2 s comes out
        (20.0, 3.0, 0.0),  # it ends, and its rows come out
        (20.0, None, 0.0),
        (0.1, 0.4, 0.0),
        (1.0, 3.0, mean_loss(4.0, 0.2, gradual=False)),  # whatever batch it is by then
        (3.0, 1.0, mean_loss(4.0, 0.2, gradual=False)),
    ],
)
def test_a_batch_that_is_broken_off_adds_the_time_that_was_spent_on_it(
    seconds: float, left: float | None, more: float
) -> None:
    progress = BatchProgress(number=3, planned=100, seconds=seconds, left=left)
    reports = told("0-a", usual_seconds=1.0, batch_progress=progress)
    assert expected([lane("0-a")], reports, Kind.SAME) == pytest.approx(1.6 + more)


def test_a_batch_that_cannot_be_taken_back_is_awaited_and_its_rows_come_out() -> None:
    progress = BatchProgress(number=3, planned=100, seconds=2.0, left=30.0)
    reports = told("0-a", usual_seconds=1.0, batch_progress=progress, repeats="writes at least once to out")
    assert expected([lane("0-a")], reports, Kind.SAME) == pytest.approx(1.6)


def test_the_first_batch_is_smaller_where_functions_take_the_time() -> None:
    by_progress = BatchProgress(number=3, planned=100, seconds=2.0, spent={"functions": 1.5, "reading": 0.5})
    progress = told("0-a", usual_seconds=0.8, batch_progress=by_progress)
    assert expected([lane("0-a")], progress, Kind.SAME) == pytest.approx(0.6 + 0.2 + 0.15)
    by_last = told("0-a", usual_seconds=4.0, spent={"functions": 4.0})
    assert expected([lane("0-a")], by_last, Kind.SAME) == pytest.approx(0.6 + 1.0)
    by_seconds = told("0-a", usual_seconds=0.4, busy=0.5, working=0.25)
    assert expected([lane("0-a")], by_seconds, Kind.SAME) == pytest.approx(0.6 + 0.2 + 0.05)


BACKLOG = {
    "batch_times": BatchTimes(fixed=1.0, per_record=0.003),
    "spent": {"functions": 3.0, "reading": 1.0},
    "usual_seconds": 2.0,  # batches have grown
    "limit": 1000,
    "positions": {"embedded/flights/0": 5000},
    "ends": {"embedded/flights/0": 100_000},
}
"""A batch takes 1 s, and 3 ms for each record."""
FIRST = 1.0 + 0.75
"""The seconds of the first batch of the next lane, which has a quarter of the records."""


@pytest.mark.parametrize(
    ("progress", "since", "lost"),
    [
        (
            BatchProgress(number=3, planned=1500, seconds=0.5),
            1.1,
            1.1 + 0.2 + BROKEN_OFF,
        ),  # nothing came for 1.1 s by then
        (BatchProgress(number=3, planned=1000, seconds=0.5), 0.2, 0.5 + 0.2 + BROKEN_OFF),  # a clock that is slow
        (BatchProgress(number=3, planned=2000, seconds=0.5), 3600, 2.5 + 0.2 + BROKEN_OFF),  # and one that is fast
        (BatchProgress(number=3, planned=1000, seconds=3.0), 3.2, 0.0),  # it is awaited
        (BatchProgress(number=3, planned=1000, seconds=1.2), 1.2, 1.2 + 0.2 + BROKEN_OFF),  # it is decided
        (BatchProgress(number=3, planned=1000, seconds=1.6), 1.6, 0.0),
        (BatchProgress(number=3, planned=4000, seconds=3.0), 3.4, 3.4 + 0.2 + BROKEN_OFF),
        (BatchProgress(number=3, planned=1000, seconds=1.5, left=9.0), 1.9, 1.9 + 0.2 + BROKEN_OFF),
        (BatchProgress(number=3, planned=1000, seconds=4.0, left=0.2), 4.4, 0.0),  # the next one is brief
        (None, 0.2, 0.2 + 0.2 + BROKEN_OFF),  # a batch has just begun, or is about to
    ],
)
def test_a_change_that_is_made_meets_the_present_batch(
    progress: BatchProgress | None, since: float, lost: float
) -> None:
    reports = told("0-a", **BACKLOG, batch_progress=progress, last_output=5000.0 - since)
    following = [lane("0-b", predecessors=("0-a",))]
    found = expected([lane("0-a")], reports, Kind.SAME, following=following, made_at=5000.0)
    assert found == pytest.approx(0.6 + FIRST + lost)


@pytest.mark.parametrize(
    ("progress", "since", "lost"),
    [
        (BatchProgress(number=3, planned=1000, seconds=3.0), 3.2, 3.2 + 0.2 + BROKEN_OFF),
        (BatchProgress(number=3, planned=1000, seconds=1.8), 1.8, 1.8 + 0.2 + BROKEN_OFF),
        (BatchProgress(number=3, planned=1000, seconds=6.0), 6.0, 6.0 + 0.2 + BROKEN_OFF),  # it takes longer than usual
        (BatchProgress(number=3, planned=1000, seconds=4.0, left=0.2), 4.4, 0.2 + BROKEN_OFF),  # the next one meets it
    ],
)
@pytest.mark.parametrize("repeats", ["", "writes at least once to out"])
def test_a_hasty_change_breaks_off_any_batch(progress: BatchProgress, since: float, lost: float, repeats: str) -> None:
    reports = told("0-a", **BACKLOG, batch_progress=progress, last_output=5000.0 - since, repeats=repeats)
    following = [lane("0-b", predecessors=("0-a",))]
    found = expected([lane("0-a")], reports, Kind.SAME, following=following, made_at=5000.0, hasty=True)
    assert found == pytest.approx(0.6 + FIRST + lost)


@pytest.mark.parametrize(
    ("progress", "waiting", "last", "seconds"),
    [
        (None, 100, 4999.2, 0.8),
        (None, 100, 4000.0, 2.0),
        (None, 100, 5009.0, 0.0),
        (None, 100, 0.0, 0.0),  # there was no output yet
        (None, 0, 4999.2, 0.0),  # there was nothing to read
        (BatchProgress(number=3, planned=100, seconds=3.0), 100, 4996.2, 3.8),
        (BatchProgress(number=3, planned=100, seconds=3.0), 100, 4000.0, 5.0),
        (BatchProgress(number=3, planned=100, seconds=3.0), 100, 5009.0, 3.0),
    ],
)
def test_how_long_nothing_came_out_when_a_change_is_made(
    progress: BatchProgress | None, waiting: int, last: float, seconds: float
) -> None:
    its = {"positions": {"embedded/flights/0": 50}, "ends": {"embedded/flights/0": 50 + waiting}}
    report = told("0-a", **its, batch_progress=progress, last_output=last)["0-a"]
    assert batch_loss.without_output(report, 5000.0) == pytest.approx(seconds)


def test_a_plan_meets_a_batch_at_any_moment() -> None:
    following = [lane("0-b", predecessors=("0-a",))]
    for seconds in (0.5, 3.0):
        progress = BatchProgress(number=3, planned=1000, seconds=seconds)
        reports = told("0-a", **BACKLOG, batch_progress=progress)
        found = expected([lane("0-a")], reports, Kind.SAME, following=following)
        assert found == pytest.approx(0.6 + FIRST + mean_loss(4.0, 0.2, gradual=False))


def test_where_nothing_waits_no_batch_is_lost_between_two() -> None:
    reports = told("0-a", **{**BACKLOG, "ends": {"embedded/flights/0": 5000}})
    assert expected([lane("0-a")], reports, Kind.SAME, made_at=5000.0) == pytest.approx(0.6 + FIRST)


@pytest.mark.parametrize(
    ("known", "factor", "one_each", "waiting", "first"),
    [
        ({}, 1, False, 95_000, 1.0 + 0.75),
        ({}, 4, False, 95_000, 1.0 + 3.0 * 2 / 4),  # twice as many records, in four times as many buckets
        ({}, 1, True, 95_000, 1.0 + 0.75),  # half of the partitions each, with half of the records
        ({4: StoredSize(8000, 2)}, 4, False, 95_000, 1.0 + 3.0 * 2 / 4),  # a quarter of 8000
        ({4: StoredSize(8000, 2)}, 4, True, 95_000, 1.0 + 3.0 * 2 / 4),
        ({}, 1, False, 100, 1.0 + 0.3),  # no more is there to read
    ],
)
def test_the_first_batches_of_the_next_lanes_have_the_size_that_their_containers_choose(
    known: dict[int, StoredSize], factor: int, one_each: bool, waiting: int, first: float
) -> None:
    former = reading(lane("0-a"), FLIGHTS, OTHER)
    reports = told("0-a", **{**BACKLOG, "ends": {"embedded/flights/0": 5000 + waiting}}, repeats="no batch is lost")
    parts = [(FLIGHTS,), (OTHER,)] if one_each else [(FLIGHTS, OTHER)]
    following = [
        reading(lane(f"0-{n}", factor=factor, predecessors=("0-a",)), *each) for n, each in enumerate(parts, start=1)
    ]
    shown = Experience(speeds={("s", "outputs"): known})
    found = expected([former], reports, Kind.SAME, shown, following=following, made_at=5000.0)
    assert found == pytest.approx(0.6 + first)


@pytest.mark.parametrize(
    ("factor", "after", "tasks", "records", "functions"),
    [
        (1, 4, 0, 2000, 3.0 * 2 / 4),
        (1, 4, 2, 2000, 3.0 * 2 / 4),
        (1, 4, 1, 2000, 3.0 * 2 / 8),  # one partition after another before, and eight buckets at once then
        (1, 1, 1, 250, 0.75),
        (4, 1, 0, 62, 0.062 * 3 * 4),
        (4, 1, 2, 62, 0.062 * 3 * 4),
        (4, 1, 1, 62, 0.062 * 3 * 8),
    ],
)
def test_functions_work_on_partitions_one_after_another_only_at_factor_1(
    factor: int, after: int, tasks: int, records: int, functions: float
) -> None:
    former = msgspec.structs.replace(reading(lane("0-a"), FLIGHTS, OTHER), factor=factor)
    following = [reading(lane("0-b", factor=after, predecessors=("0-a",)), FLIGHTS, OTHER)]
    times = BatchTimes(fixed=1.0, per_record=0.003, tasks=tasks)
    reports = told("0-a", **{**BACKLOG, "batch_times": times}, repeats="no batch is lost")
    assert stored_sizes.first({factor: StoredSize(1000, 2)}, after, 2, quick=False) == records
    found = expected([former], reports, Kind.SAME, following=following, made_at=5000.0)
    assert found == pytest.approx(0.6 + 1.0 + functions)


def test_a_lane_with_several_predecessors_pauses_after_the_last_output_of_any_of_them() -> None:
    """A batch that is broken off holds nothing up while another one is awaited."""
    broken = BatchProgress(number=3, planned=4000, seconds=3.0)
    awaited = BatchProgress(number=3, planned=1000, seconds=3.0)
    reports = told("0-a", **BACKLOG, batch_progress=broken, last_output=4996.6) | told(
        "0-b", **BACKLOG, batch_progress=awaited, last_output=4996.8
    )
    closing = [lane("0-a"), reading(lane("0-b", seat="1"), OTHER)]
    both = [reading(lane("0-c", predecessors=("0-a", "0-b")), FLIGHTS, OTHER)]
    found = pause_estimate.predicted(closing, both, reports, kind=Kind.SAME, made_at=5000.0)
    lost = 3.4 + 0.2 + BROKEN_OFF
    assert (found.lost, found.losses["0-a"].seconds) == (0.0, pytest.approx(lost))
    each = [lane("0-c", predecessors=("0-a",)), reading(lane("0-d", predecessors=("0-b",)), OTHER)]
    apart = pause_estimate.predicted(closing, each, reports, kind=Kind.SAME, made_at=5000.0)
    assert (apart.lost, apart.seconds) == (pytest.approx(lost), pytest.approx(lost + 0.6 + FIRST))


def test_the_batch_sizes_of_closed_lanes_are_kept_by_their_factor() -> None:
    shown = Experience().closed([lane("0-a"), lane("0-b")], told("0-a", limit=400))
    shown = shown.closed([lane("0-c", factor=4)], told("0-c", limit=6000))
    assert shown.speeds == {("s", "outputs"): {1: StoredSize(400, 1), 4: StoredSize(6000, 1)}}
    running = lane_report(lane="0-d", phase=LanePhase.RUNNING, limit=500)
    assert shown.known(lane("0-d"), running)[1] == StoredSize(500, 1)


def change(foretold: float, how: Kind = Kind.SAME, state_bytes: int = 0) -> MeasuredChange:
    return MeasuredChange(foretold, frozenset({"0-a"}), 0.0, how, state_bytes > 0, state_bytes)


def test_lanes_of_another_version_close_later_and_may_meet_another_batch() -> None:
    progress = BatchProgress(number=3, planned=1000, seconds=0.5)
    reports = told("0-a", **BACKLOG, batch_progress=progress, last_output=4999.0)
    found = []
    for deployment in (0, 1):
        following = [lane("0-b", predecessors=("0-a",), deployment=deployment)]
        found.append(expected([lane("0-a")], reports, None, following=following, made_at=5000.0))
    assert found[0] == pytest.approx(0.6 + FIRST + 1.0 + 0.2 + BROKEN_OFF)
    begins = usual_overhead(Kind.VERSION, False)
    assert found[1] == pytest.approx(begins + FIRST + mean_loss(4.0, 0.2, gradual=False))


def test_state_takes_as_long_as_former_changes_have_shown() -> None:
    reports = told("0-a", usual_seconds=1.0, state_bytes=1_000_000_000)
    stateful = [lane("0-a", stateful=True)]
    before = expected(stateful, reports, Kind.SAME)
    assert before == pytest.approx(2.2 + 5)
    shown = Experience()
    for _ in range(8):
        foretold = expected(stateful, reports, Kind.SAME, shown)
        shown = shown.after(change(foretold, state_bytes=1_000_000_000), 2.2 + 8)
    assert expected(stateful, reports, Kind.SAME, shown) == pytest.approx(2.2 + 8, rel=0.05)
    assert not shown.overhead, "the time went into state"


def test_state_that_is_replayed_takes_as_long_as_former_changes_have_shown() -> None:
    reports = told("0-a", usual_seconds=1.0, state_bytes=50_000_000, replay_seconds=12.0)
    stateful = [lane("0-a", stateful=True)]
    assert expected(stateful, reports, Kind.SAME) == pytest.approx(2.2 + 0.25 + 12)
    shown = Experience()
    for _ in range(8):
        foretold = expected(stateful, reports, Kind.SAME, shown)
        made = MeasuredChange(foretold, frozenset({"0-a"}), 0.0, Kind.SAME, True, 50_000_000, replay_seconds=12.0)
        shown = shown.after(made, 2.2 + 0.25 + 6)
    assert expected(stateful, reports, Kind.SAME, shown) == pytest.approx(2.2 + 0.25 + 6, rel=0.05)
    assert not shown.overhead, "the time went into replaying"


def test_a_kind_takes_as_long_as_it_did_and_others_as_much_longer_than_usual() -> None:
    closing, reports, shown = [lane("0-a")], told("0-a", usual_seconds=1.0), Experience()
    for _ in range(8):
        shown = shown.after(change(expected(closing, reports, Kind.SAME, shown)), 1.0 + 1.8)
    assert expected(closing, reports, Kind.SAME, shown) == pytest.approx(2.8, abs=0.1)
    assert expected(closing, reports, Kind.FACTOR, shown) == pytest.approx(
        1.0 + 3 * usual_overhead(Kind.FACTOR, False), abs=0.3
    )
    longer = math.sqrt(3)  # in other containers, other things take the time
    assert expected(closing, reports, Kind.NEW, shown) == pytest.approx(
        1.0 + longer * usual_overhead(Kind.NEW, False), abs=0.3
    )
    shown = shown.after(change(4.0, Kind.NEW), 4.0)
    longer = math.sqrt(longer)
    assert expected(closing, reports, Kind.MOVED, shown) == pytest.approx(
        1.0 + longer * usual_overhead(Kind.MOVED, False), abs=0.3
    )


def test_a_little_state_is_not_what_took_long() -> None:
    shown = Experience().after(change(8.0, Kind.NEW, state_bytes=30_000_000), 12.5)
    assert shown.state_speed == Experience().state_speed
    assert shown.slowness(Kind.NEW) > 1.25


def test_one_change_that_is_far_off_makes_the_next_at_most_twice_as_long_or_as_short() -> None:
    for pause, times in ((60.0, 2.0), (0.1, 0.5)):
        shown = Experience().after(change(10.0), pause)
        assert expected([lane("0-a")], {}, Kind.SAME, shown) == pytest.approx(times * 0.6)


def test_the_first_change_within_containers_takes_longer_and_says_so_of_no_later_one() -> None:
    closing, reports, cold = [lane("0-a")], told("0-a", usual_seconds=1.0), Experience(cold=True)
    usual = usual_overhead(Kind.FACTOR, False)
    first = expected(closing, reports, Kind.FACTOR, cold)
    assert first > 1.0 + 1.2 * usual
    warm = cold.after(change(first, Kind.FACTOR), first)
    assert not warm.cold
    assert expected(closing, reports, Kind.FACTOR, warm) == pytest.approx(1.0 + usual)
    assert expected(closing, reports, Kind.NEW, cold) == pytest.approx(1.0 + usual_overhead(Kind.NEW, False))


def test_containers_of_another_version_are_cold_again() -> None:
    warm = Experience(cold=True).after(change(2.0, Kind.FACTOR), 2.0)
    assert not warm.after(change(2.0, Kind.MOVED), 2.0).cold
    assert warm.after(change(4.0, Kind.VERSION), 4.0).cold
    assert Experience(cold=True).after(change(2.0, Kind.NEW), 2.0).cold


def test_a_container_that_must_start_is_waited_for() -> None:
    assert expected([lane("0-a")], told("0-a", usual_seconds=1.0), Kind.NEW, starting=12.0) == 12.0


def _measured(watched: MeasuredChange, lanes: list[Lane], since: float, whole: float = math.inf) -> tuple[float, str]:
    found = watched.measured(lanes, since, whole)
    assert found is not None
    return found.seconds, found.lane


def test_a_pause_is_measured_once_all_that_follow_have_committed_something() -> None:
    watched = MeasuredChange(1.0, frozenset({"a", "b"}), at=100.0)
    lanes = [lane("a"), lane("b"), lane("c", predecessors=("a",)), lane("d", predecessors=("b",)), lane("e")]
    watched.hear(lanes, {name: lane_report(lane=name, phase=LanePhase.RUNNING, last_output=99.0) for name in "ab"})
    watched.hear(lanes, {"c": lane_report(lane="c", phase=LanePhase.RUNNING, first_output=102.5)})
    assert watched.measured(lanes, 1.0) is None
    watched.hear(lanes, {"b": lane_report(lane="b", phase=LanePhase.ENDED, last_output=101.0)})
    watched.hear(lanes, {"d": lane_report(lane="d", phase=LanePhase.RUNNING, first_output=102.0)})
    assert _measured(watched, lanes, 1.0) == (pytest.approx(3.5), "c")


def test_lanes_that_have_had_nothing_to_read_for_a_minute_do_not_count() -> None:
    watched = MeasuredChange(1.0, frozenset({"a", "b"}), at=100.0)
    lanes = [lane("a"), lane("b"), lane("c", predecessors=("a",)), lane("d", predecessors=("b",))]
    assert _measured(watched, lanes, 61.0) == (0.0, "")
    watched.hear(lanes, {"c": lane_report(lane="c", phase=LanePhase.RUNNING, first_output=102.5)})
    assert _measured(watched, lanes, 61.0) == (pytest.approx(2.5), "c"), (
        "from when it was accepted: none came out before"
    )


def test_a_pause_is_not_known_as_long_as_a_lane_has_records_to_read_and_has_written_none() -> None:
    watched = MeasuredChange(1.0, frozenset({"a"}), at=100.0)
    lanes = [lane("a"), lane("c", predecessors=("a",))]
    watched.hear(lanes, told("c", ends={"embedded/in/0": 3000}, positions={"embedded/in/0": 0}))
    assert watched.measured(lanes, 3600.0) is None, "records have arrived"
    watched.hear(lanes, told("c", ends={"embedded/in/0": 3000}, positions={"embedded/in/0": 3000}))
    assert _measured(watched, lanes, 3600.0) == (0.0, ""), "all were filtered out"


@pytest.mark.parametrize(
    ("last", "spent", "pause"),
    [
        (96.0, 3.5, 6.0),  # a batch of 3.5 s was broken off: nothing had come out since the one before it
        (40.0, 0.0, 2.0),  # there was nothing to read for a minute: output stood still because of that
        (100.5, 3.5, 1.5),
    ],
)
def test_a_pause_begins_with_the_last_output_if_there_was_something_to_read(
    last: float, spent: float, pause: float
) -> None:
    watched = MeasuredChange(1.0, frozenset({"a"}), at=100.0, spent=spent)
    lanes = [lane("a"), lane("c", predecessors=("a",))]
    watched.hear(lanes, told("a", last_output=last) | told("c", first_output=102.0))
    assert _measured(watched, lanes, 1.0, 2.5) == (pytest.approx(pause), "c")


@pytest.mark.parametrize(
    ("last", "break_off", "lost"),
    [
        (98.0, True, 2.0 + 0.2 + BROKEN_OFF),
        (98.0, False, 2.0 + 0.2 + BROKEN_OFF),  # it was broken off all the same
        (100.5, True, 0.0),  # it came out, although it was expected to be broken off
        (98.0, None, 0.0),  # batches are short
    ],
)
def test_what_a_batch_that_is_broken_off_adds_says_nothing_about_how_long_lanes_take_to_begin(
    last: float, break_off: bool | None, lost: float
) -> None:
    decision = None if break_off is None else BatchDecision(batch=3, break_off=break_off)
    delay = 0.2 + BROKEN_OFF
    loss = BatchLoss(3.0 if break_off else 0.0, decision, delay)
    watched = MeasuredChange(
        loss.seconds + 0.6, frozenset({"a"}), at=100.0, spent=3.0, lost=loss.seconds, losses={"a": loss}
    )
    lanes = [lane("a"), lane("c", predecessors=("a",))]
    first = 100.0 + delay + 0.6 if lost else 100.5 + 0.6
    watched.hear(lanes, told("a", last_output=last) | told("c", first_output=first))
    found = watched.measured(lanes, 1.0)
    assert found is not None
    assert found.lost == pytest.approx(lost)
    if break_off is not None:
        shown = Experience().after(watched, found.seconds, found.lost)
        assert shown.slowness(Kind.SAME) == pytest.approx(1.0)


def test_lanes_are_told_which_batches_are_expected_to_be_broken_off() -> None:
    coordinator = Coordinator(Store("sqlite://"), lease=10, grace=2)
    coordinator.start(start())
    worker = Worker(coordinator)
    worker.turns()
    its = {name: value for name, value in BACKLOG.items() if name not in ("positions", "ends")}
    progress = BatchProgress(number=8, planned=1000, seconds=0.5)
    worker.reports = {name: each.changed(**its, batch_progress=progress) for name, each in worker.reports.items()}
    worker.seat.beat(*worker.reports.values())
    coordinator.scale(JOB, ScaleRequest(factor=4))
    answer = worker.seat.beat(*worker.reports.values())
    assert {each.decision for each in answer.wanted if each.closing} == {BatchDecision(batch=8, break_off=True)}


def test_the_events_of_a_job_say_what_was_foretold_and_what_was_measured() -> None:
    coordinator = Coordinator(Store("sqlite://"), lease=10, grace=2)
    coordinator.start(start())
    worker = Worker(coordinator)
    worker.turns()
    coordinator.scale(JOB, ScaleRequest(factor=4))
    worker.turns()
    assert not [each for each in coordinator.events(JOB, 100) if "output paused" in each.what]
    told = {name: each.changed(first_output=time.time()) for name, each in worker.reports.items()}
    worker.seat.beat(*told.values())
    coordinator.tick()
    (event,) = [each for each in coordinator.events(JOB, 100) if "output paused" in each.what]
    assert event.why == "1.5 s was expected"


@pytest.mark.parametrize(
    ("pause", "what"),
    [
        (0.0, "no records arrived during the change"),
        (0.001, "output paused for 0.1 s"),
        (1.26, "output paused for 1.3 s"),
    ],
)
def test_a_pause_that_is_hardly_one_is_no_lack_of_records(pause: float, what: str) -> None:
    event = job_events.measured(JOB, 1.0, pause, 2.0)
    assert event.what == what
    assert event.change is not None
    assert bool(event.change.measured_pause) == bool(pause)


def test_the_pause_of_a_change_is_foretold_anew_from_the_batch_that_it_meets() -> None:
    coordinator = Coordinator(Store("sqlite://"), lease=10, grace=2)
    coordinator.start(start())
    worker = Worker(coordinator)
    worker.turns()
    foretold = []
    for seconds in (0.5, 3.0):
        progress = BatchProgress(number=8, planned=1000, seconds=seconds)  # and no output so far
        its = {name: value for name, value in BACKLOG.items() if name not in ("positions", "ends")}
        worker.reports = {name: each.changed(**its, batch_progress=progress) for name, each in worker.reports.items()}
        worker.seat.beat(*worker.reports.values())
        plan = coordinator.scale(JOB, ScaleRequest(factor=4, dry=True)).pause
        foretold.append(plan)
    assert foretold[0] == foretold[1], "a plan may be carried out at any moment"
    coordinator.scale(JOB, ScaleRequest(factor=4))
    (event,) = [each for each in coordinator.events(JOB, 100) if "expected to pause" in each.what]
    foretold = float(event.what.removeprefix("output is expected to pause for ").removesuffix(" s"))
    assert foretold == pytest.approx(plan - mean_loss(4.0, 0.2, gradual=False), abs=0.051), "the batch is awaited"


@pytest.mark.parametrize(("now", "lost"), [(False, 0.0), (True, 3.0 + 0.2 + BROKEN_OFF)])
def test_the_pause_of_a_change_that_does_not_wait_is_foretold_with_the_batch_that_it_breaks_off(
    now: bool, lost: float
) -> None:
    coordinator = Coordinator(Store("sqlite://"), lease=10, grace=2)
    coordinator.start(start())
    worker = Worker(coordinator)
    worker.turns()
    its = {
        "usual_seconds": 4.0,
        "batch_progress": BatchProgress(number=8, planned=1000, seconds=3.0),
        "repeats": "writes at least once to out",
    }
    worker.reports = {name: each.changed(**its) for name, each in worker.reports.items()}
    worker.seat.beat(*worker.reports.values())
    waiting = coordinator.scale(JOB, ScaleRequest(factor=4, dry=True)).pause
    coordinator.scale(JOB, ScaleRequest(factor=4, now=now))
    (event,) = [each for each in coordinator.events(JOB, 100) if "expected to pause" in each.what]
    assert event.what == f"output is expected to pause for {waiting + lost:.1f} s"


def test_how_long_a_container_takes_is_learned_from_those_that_were_started_for_a_change() -> None:
    shown = Experience()
    for _ in range(6):
        shown = shown.started(6.0)
    assert shown.container == pytest.approx(6.0, abs=0.3)
