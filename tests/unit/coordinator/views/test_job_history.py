"""Figures of jobs over time: in rings of a fixed size, with gaps where nobody looked."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.store import Store
from anabranch.coordinator.views.job_history import DAY, HOUR, STEP, Ring
from anabranch.errors import NotFoundError, UsageError
from tests.unit.coordinator.figures import with_figures
from tests.unit.coordinator.helpers import Clock
from tests.unit.coordinator.workers import JOB


@given(
    size=st.integers(1, 8),
    puts=st.lists(st.tuples(st.integers(0, 30), st.floats(0, 9)), max_size=12),
    first=st.integers(0, 40),
    count=st.integers(0, 12),
)
def test_a_ring_has_the_last_figures_and_nothing_where_none_was_taken(
    size: int, puts: list[tuple[int, float]], first: int, count: int
) -> None:
    ring, expected, last = Ring(size), dict[int, float](), -1
    for slot, value in puts:
        ring.put(slot, value)
        if slot >= last:
            expected[slot], last = value, slot
    found = ring.get(first, first + count)
    for slot, value in enumerate(found, first):
        wanted = expected.get(slot, math.nan) if slot > last - size else math.nan
        assert value == wanted or (math.isnan(value) and math.isnan(wanted))


@pytest.fixture
def now() -> Clock:
    return Clock()


@pytest.fixture
def coordinator(now: Clock) -> Coordinator:
    return Coordinator(
        Store("sqlite://"), clock=now, lease=1e9, grace=2, now=now, counting=lambda *_: {"embedded/in": 2}
    )


def test_a_lag_that_is_not_known_is_a_gap_and_no_sum_of_the_others(coordinator: Coordinator, now: Clock) -> None:
    worker = with_figures(coordinator)
    reports = coordinator.registry.jobs[JOB].reports
    worker.seat.beat(*(each.changed(ends_known=place > 0) for place, each in enumerate(reports.values())))
    now.at += 10
    coordinator.tick()
    series = coordinator.history(JOB, "lag,rows", "job").values
    assert next(iter(series["lag"].values()))[-1] is None
    assert next(iter(series["rows"].values()))[-1] == 30.0
    assert coordinator.overview().jobs[0].lag is None


def test_after_a_takeover_nothing_is_summed_until_all_lanes_were_heard(coordinator: Coordinator, now: Clock) -> None:
    worker = with_figures(coordinator)
    other = Coordinator(coordinator.registry.store, clock=now, lease=1e9, grace=2, now=now)
    other.adopt(JOB)
    worker.seat.coordinator = other
    first, *rest = worker.reports.values()
    worker.seat.beat(first)
    now.at += 10
    other.tick()
    (job,) = other.overview().jobs
    assert (job.lag, job.rows, job.arriving) == (None, None, None)
    assert not other.history(JOB, "lag", "job").values["lag"]
    worker.seat.beat(first, *rest)
    now.at += 10
    other.tick()
    (job,) = other.overview().jobs
    assert job.lag == sum(each.lag for each in other.status(JOB).lanes)
    assert next(iter(other.history(JOB, "lag", "job").values["lag"].values()))[-1] == job.lag


def test_figures_are_taken_every_ten_seconds_and_a_gap_stays_one(coordinator: Coordinator, now: Clock) -> None:
    with_figures(coordinator)
    for passed in (0, 10, 10, 40):
        now.at += passed
        for _ in range(3):
            coordinator.tick()
    found = coordinator.history(JOB, "rows", "job")
    (values,) = found.values["rows"].values()
    assert [each for each in values if each is not None] == [30.0] * 4
    assert values[-7:] == (30.0, 30.0, 30.0, None, None, None, 30.0)
    assert (found.step, found.since) == (STEP, 1000.0)
    assert found.t0 + (len(values) - 1) * STEP == now.at


def test_what_was_seen_of_a_job_that_has_ended_is_freed(coordinator: Coordinator, now: Clock) -> None:
    with_figures(coordinator)
    now.at += 10
    coordinator.tick()
    seen = now.at
    coordinator.registry.jobs.clear()  # as if another coordinator served the job

    def sizes() -> list[int]:
        coordinator.tick()
        window = {"since": seen - 10, "until": seen}
        return [len(coordinator.history(JOB, "rows", by, **window).values["rows"]) for by in ("job", "stage", "lane")]

    whole = sizes()
    assert all(whole)
    now.at += 10 * HOUR
    assert sizes() == whole
    now.at += 10
    assert sizes() == [*whole[:2], 0]
    now.at = seen + 10 * DAY
    assert sizes() == [*whole[:2], 0]
    now.at += 10
    assert sizes() == [0, 0, 0]


def test_they_are_by_stage_and_by_lane_too(coordinator: Coordinator) -> None:
    with_figures(coordinator)
    coordinator.look()
    status = coordinator.status(JOB)
    lanes = coordinator.history(JOB, "lag", "lane").values["lag"]
    assert {name: values[-1] for name, values in lanes.items()} == {
        each.lane.id: float(each.lag) for each in status.lanes
    }
    stages = coordinator.history(JOB, "lag", "stage").values["lag"]
    assert sum(values[-1] or 0 for values in stages.values()) == sum(each.lag for each in status.lanes)


def test_the_overview_says_whether_the_lag_grows(coordinator: Coordinator, now: Clock) -> None:
    worker = with_figures(coordinator)
    coordinator.tick()
    before = coordinator.overview().jobs[0]
    assert before.lag_trend is None
    now.at += 20
    worker.reports = {
        name: report.changed(ends={ssp: at + 500 for ssp, at in report.progress.positions.items()})
        for name, report in worker.reports.items()
    }
    worker.seat.beat(*worker.reports.values())
    coordinator.tick()
    after = coordinator.overview().jobs[0]
    assert after.lag is not None
    assert before.lag is not None
    assert after.lag_trend == pytest.approx((after.lag - before.lag) / 20)
    assert after.lag_trend > 0


def test_exactly_a_day_may_be_asked_for(coordinator: Coordinator, now: Clock) -> None:
    with_figures(coordinator)
    coordinator.tick()
    day = DAY * STEP
    for until in (0.0, now.at, now.at + 5):
        found = coordinator.history(JOB, "rows", "job", since=now.at - day, until=until)
        (values,) = found.values["rows"].values()
        assert (found.t0, len(values), values[-1]) == (now.at - day, DAY + 1, 30.0)
    with pytest.raises(UsageError, match="more than a day"):
        coordinator.history(JOB, since=now.at - day - STEP)


def test_what_there_is_not_is_refused(coordinator: Coordinator) -> None:
    with_figures(coordinator)
    with pytest.raises(UsageError, match="no figures 'colour'"):
        coordinator.history(JOB, "lag,colour")
    with pytest.raises(UsageError, match="by 'planet'"):
        coordinator.history(JOB, by="planet")
    with pytest.raises(UsageError, match="more than a day"):
        coordinator.history(JOB, since=-DAY * STEP)
    with pytest.raises(NotFoundError):
        coordinator.history("unknown")
