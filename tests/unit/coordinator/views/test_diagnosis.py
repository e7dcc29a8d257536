"""What holds a job back: each rule finds its own trouble, and says nothing of a job that is well."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.coordinator.views import diagnosis
from anabranch.model.lane import LaneState
from anabranch.protocol.drain import DrainNotification, DrainProgress
from anabranch.protocol.lane_report import LanePhase
from anabranch.protocol.standby import StandbyStatus
from anabranch.protocol.status import ContainerStatus, JobStatus, LaneStatus, LaunchStatus
from anabranch.views.live import ChangeProgress
from tests.support.reports import lane_report
from tests.unit.coordinator.helpers import FIRST, SECOND, lane

WELL = lane_report(
    lane=FIRST,
    phase=LanePhase.RUNNING,
    positions={"embedded/flights/0": 90},
    ends={"embedded/flights/0": 100},
    rows_per_second=50.0,
    arriving=50.0,
    span=30.0,
    busy=0.5,
    working=0.4,
    watermark=1_000_000,
    held_by="embedded/flights/0",
)
SEAT = ContainerStatus(container="delays:0:1", seat="0", epoch=1, host="h", pid=7, lease=9.0)


def status(*lanes: LaneStatus, **given: Any) -> JobStatus:
    fields: dict[str, Any] = {"state": "running", "containers": (SEAT,), "deployment": 1, "generation": 3}
    return JobStatus(job="delays", lanes=lanes or (of(),), **{**fields, **given})


def of(name: str = FIRST, report: dict[str, Any] | None = None, **given: Any) -> LaneStatus:
    """A lane that runs well, but for what is given of it and of its report."""
    its = WELL.changed(**{"lane": name, **(report or {})})
    return LaneStatus(lane=lane(name, **{"state": LaneState.RUNNING, **given}), report=its)


CHANGE = ChangeProgress(generation=4, began=100.0, predicted=2.0, closing=("a", "b"), starting=("c",), closed=1)
DRAIN = DrainProgress(notification=DrainNotification(uuid="u", run_id=1))

CASES = {
    "job-failed": (status(state="failed", error="it can't"), None),
    "lane-failed": (status(of(state=LaneState.FAILED, error="ValueError: no")), None),
    "launcher-gave-up": (status(launching=LaunchStatus(wanted=2, running=0, failures=5, gave_up=True)), None),
    "no-leader": (
        status(
            served=False,
            containers=(ContainerStatus(container="delays:0:1", seat="0", epoch=1, host="h", pid=7, alive=None),),
        ),
        None,
    ),
    "seats-empty": (status(seats=2), None),
    "lease-runs-out": (
        status(containers=(ContainerStatus(container="delays:0:1", seat="0", epoch=1, host="h", pid=7, lease=2.0),)),
        None,
    ),
    "lane-unfenced": (status(of(unfenced=True)), None),
    "change-slow": (status(state="changing"), CHANGE),
    "lane-restarts": (status(of(report={"number": 3, "trouble": "it stood still"})), None),
    "lanes-wait": (
        status(
            *(
                of(name, {"awaits": "the brokers of Kafka", "awaits_since": 90.0, "trouble": "refused", "number": 2})
                for name in (FIRST, SECOND)
            )
        ),
        None,
    ),
    "lane-warning": (status(of(FIRST, {"warnings": ("W",)}), of(SECOND, {"warnings": ("W",)})), None),
    "lag-grows": (status(of(report={"arriving": 90.0})), None),
    "backlog": (status(of(report={"ends": {"embedded/flights/0": 9_090}, "arriving": 40.0})), None),
    "skew": (status(of(report={"skew": 6.3, "working": 0.95, "slowest": "embedded/flights/0#3"})), None),
    "holds-time": (status(of(), of(SECOND, {"watermark": 1_000_000 + 41 * 60_000})), None),
    "input-changed": (status(inputs={"embedded/flights": 0}), None),
    "standby-broken": (status(copies=(StandbyStatus(lane=FIRST, number=0, container="c", error="disk full"),)), None),
    "standby-behind": (status(copies=(StandbyStatus(lane=FIRST, number=0, container="c", behind=14),)), None),
    "dead-letters": (status(of(report={"dead_letters": 12}, dead_letters={"flights": "late"})), None),
    "drain-stuck": (status(of(report={"stuck": "map works on flights/1", "overdue": True}), drain=DRAIN), None),
}


def found(which: JobStatus, change: ChangeProgress | None = None) -> list[str]:
    return [each.rule for each in diagnosis.findings(which, 150.0, 10.0, change)]


def test_of_a_job_that_is_well_nothing_is_said() -> None:
    assert found(status()) == []


@pytest.mark.parametrize("rule", CASES)
def test_each_trouble_is_found_and_no_other(rule: str) -> None:
    assert found(*CASES[rule]) == [rule]


def test_it_says_for_what_lanes_wait_since_when_and_why() -> None:
    (waits,) = diagnosis.findings(CASES["lanes-wait"][0], 150.0, 10.0)
    assert (waits.summary, waits.why, waits.since) == ("2 lanes wait for the brokers of Kafka", "refused", 90.0)


def test_the_worst_comes_first_and_there_is_an_end() -> None:
    many = [of(f"by-dest-{number:08x}", {"number": 2}) for number in range(40)]
    its = diagnosis.findings(status(*many, of(state=LaneState.FAILED)), 150.0, 10.0)
    assert len(its) == diagnosis.MOST
    assert its[0].rule == "lane-failed"


def test_a_partition_holds_event_time_back_in_its_own_lane() -> None:
    times = {"embedded/flights/0": 1_000_000, "embedded/flights/1": 1_000_000 + 47 * 60_000}
    (only,) = diagnosis.findings(status(of(report={"times": times})), 150.0, 10.0)
    assert only.subject == {"ssp": "embedded/flights/0", "lane": FIRST}
    assert "47 min behind the newest partition" in only.summary
    assert found(status(of(report={"times": {**times, "embedded/flights/1": 1_059_999}}))) == []


def test_of_a_failed_job_the_failed_lane_is_not_told_twice() -> None:
    (only,) = diagnosis.findings(
        status(of(state=LaneState.FAILED, error="no"), state="failed", error="no"), 150.0, 10.0
    )
    assert (only.rule, only.subject) == ("job-failed", {"job": "delays", "lane": FIRST})


def test_it_says_who_holds_event_time_back_and_by_how_much() -> None:
    (only,) = diagnosis.findings(CASES["holds-time"][0], 150.0, 10.0)
    assert only.subject == {"ssp": "embedded/flights/0", "lane": FIRST}
    assert "41 min behind" in only.summary


@pytest.mark.parametrize(
    ("given", "lag"), [({"span": 5.0}, 10), ({"arriving": 50.0}, 10), ({"ends": {"embedded/flights/0": 90}}, 0)]
)
def test_a_lag_that_does_not_grow_or_is_not_known_is_no_trouble(given: dict[str, Any], lag: int) -> None:
    which = status(of(report={"arriving": 90.0, **given}))
    assert which.lanes[0].lag == lag
    assert found(which) == []


@pytest.mark.parametrize("rule", ["lag-grows", "backlog", "skew"])
def test_an_old_lag_is_no_trouble(rule: str) -> None:
    (its,) = CASES[rule][0].lanes
    assert its.report is not None
    assert found(status(LaneStatus(lane=its.lane, report=its.report.changed(ends_known=False)))) == []


def test_a_change_may_take_what_was_predicted() -> None:
    assert found(status(state="changing"), ChangeProgress(generation=4, began=145.0, predicted=2.0)) == []
    assert found(status(state="changing"), ChangeProgress(generation=4, began=100.0, predicted=40.0)) == []


def test_a_change_that_another_coordinator_accepted_is_given_a_minute() -> None:
    takes_part = ChangeProgress(generation=4, began=100.0, predicted=None, closing=("a", "b"), starting=("c",))
    assert found(status(state="changing"), takes_part) == []
    takes_long = ChangeProgress(generation=4, began=80.0, predicted=None, closing=("a", "b"), starting=("c",))
    (only,) = diagnosis.findings(status(state="changing"), 150.0, 10.0, takes_long)
    assert (only.rule, only.why) == ("change-slow", "0 of 2 lanes have closed, 0 of 1 that follow run")
    assert only.figures == {"seconds": 70.0}


@pytest.mark.parametrize(
    ("end", "arriving", "said"),
    [
        (9_090, 40.0, "catches up in about 15 min"),
        (9_090, 50.0, "never catches up"),
        (390, 0.0, ""),  # in six seconds
        (1_590, 45.0, "catches up in about 5 min"),
    ],
)
def test_a_backlog_is_named_with_the_time_that_it_takes(end: int, arriving: float, said: str) -> None:
    which = status(of(report={"ends": {"embedded/flights/0": end}, "arriving": arriving}))
    its = diagnosis.findings(which, 150.0, 10.0)
    assert [said in each.summary for each in its] == ([True] if said else [])
    if said:
        assert f"{end - 90:,} behind" in its[0].summary
