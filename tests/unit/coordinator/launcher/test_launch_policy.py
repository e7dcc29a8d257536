"""Whom the local launcher starts and ends: cases by hand, and a world in which anything happens."""

from __future__ import annotations

import pytest

from anabranch.coordinator.launcher import launch_policy
from anabranch.coordinator.launcher.launch_policy import (
    COMES_WITHIN,
    ENDS_WITHIN,
    FIRST_PAUSE,
    LIMIT,
    LONGEST_PAUSE,
    READY_WITHIN,
    RUNS_WELL,
    SPARE_AFTER,
    SURPLUS_FOR,
    Crew,
    Demand,
    ProcessEnd,
)
from tests.unit.coordinator.launches import CRASH, Job


def running(warm: int = 1) -> Job:
    """One process has the seat, p0, the others stand by."""
    job = Job(wanted=1 + warm)
    assert job.step().start == 1 + warm
    job.holders = {"p0"}
    job.standing_by = {f"p{n}" for n in range(1, 1 + warm)}
    assert job.step(5.0).start == 0
    return job


def test_a_job_gets_as_many_as_it_wants_at_once_and_no_more() -> None:
    job = Job(wanted=3)
    assert job.step().start == 3
    assert [job.step(1.0).start for _ in range(30)] == [0] * 30  # Spark is starting


def test_those_that_only_stand_by_are_started_once_lanes_run() -> None:
    job = Job(wanted=3, spare=1, busy=True)
    assert job.step().start == 2
    assert job.step(5.0).start == 0
    job.busy = False
    assert job.step(1.0).start == 1


def test_those_that_only_stand_by_are_started_in_the_end_even_if_lanes_never_run() -> None:
    job = Job(wanted=2, spare=1, busy=True)
    assert job.step().start == 1
    assert job.step(SPARE_AFTER - 1).start == 0
    assert job.step(1.0).start == 1


def test_those_that_only_stand_by_are_not_started_while_a_change_waits_for_others() -> None:
    job = Job(wanted=2, spare=1, busy=True, preparing=True)
    assert job.step().start == 1
    assert job.step(READY_WITHIN - 1).start == 0
    job.preparing = False
    assert job.step(SPARE_AFTER - 1).start == 0
    assert job.step(1.0).start == 1


def test_those_that_only_stand_by_are_started_in_the_end_even_if_the_others_hang() -> None:
    job = Job(wanted=2, spare=1, busy=True, preparing=True)
    assert job.step().start == 1
    assert job.step(READY_WITHIN - 1).start == 0
    assert job.step(SPARE_AFTER - 1).start == 0
    assert job.step(1.0).start == 1
    job.preparing = False
    assert job.step(1.0).start == 0


def test_one_that_stood_by_and_took_a_seat_is_replaced_once_its_lanes_run() -> None:
    job = running(warm=1)
    job.spare, job.busy = 1, True
    assert job.step(p0=ProcessEnd(0)).start == 0
    job.holders, job.standing_by = {"p1"}, set()
    assert job.step(5.0).start == 0
    job.busy = False
    assert job.step(1.0).start == 1


def test_those_of_others_count() -> None:
    job = Job(wanted=3, holders={"x"}, standing_by={"y"})
    assert job.step().start == 1


def test_after_an_adoption_nothing_is_started_before_it_is_sure_who_lives() -> None:
    job = Job(wanted=2, sure_from=110.0, holders={"x"})
    assert job.step(9.0).start == 0
    job.standing_by = {"y"}
    assert job.step(2.0).start == 0
    job.standing_by = set()
    assert job.step().start == 1


@pytest.mark.parametrize("how", [CRASH, ProcessEnd(-9), ProcessEnd(None), ProcessEnd(130)])
def test_one_that_crashed_is_replaced_after_a_pause_though_it_has_its_seat_still(how: ProcessEnd) -> None:
    job = running(warm=1)
    assert job.step(p0=how).start == 0
    assert job.step(FIRST_PAUSE).start == 1  # p0's lease goes on
    job.holders = {"p1"}
    job.standing_by = {"p2"}
    assert job.step(20.0).start == 0


@pytest.mark.parametrize("how", [ProcessEnd(0), ProcessEnd(4)])
def test_one_that_gave_its_seat_back_or_was_fenced_is_replaced_at_once(how: ProcessEnd) -> None:
    job = running(warm=0)
    plan = job.step(p0=how)
    assert (plan.start, job.crew.failures) == (1, 0)
    assert plan.news == (("container process p0 ended", how.how),)


@pytest.mark.parametrize("how", [ProcessEnd(0), ProcessEnd(4)])
def test_one_that_ended_before_it_was_heard_has_failed_whatever_its_code(how: ProcessEnd) -> None:
    job = Job()
    job.step()
    assert job.step(1.0, p0=how).start == 0
    assert job.crew.failures == 1


def test_one_that_lost_its_seat_and_is_frozen_is_replaced_at_once_and_ended_in_time() -> None:
    job = running(warm=1)
    job.holders = {"p1"}
    job.standing_by = set()
    assert job.step().start == 1
    assert job.step(ENDS_WITHIN - 1).end == ()
    assert job.step(1.0).end == ("p0",)
    assert job.step(ENDS_WITHIN - 1).kill == ()
    assert job.step(1.0).kill == ("p0",)
    assert job.step(1.0, p0=ProcessEnd(-9)).start == 0
    assert job.crew.failures == 0


def test_one_that_replaces_itself_by_a_new_process_is_waited_for_as_if_it_had_just_been_started() -> None:
    job = running(warm=0)
    job.holders = set()
    job.returning = {"p0": job.now}
    assert [(plan.start, plan.end) for plan in (job.step(ENDS_WITHIN) for _ in range(7))] == [(0, ())] * 7
    job.holders, job.returning = {"p0"}, {}
    assert job.step(1.0).start == 0
    job.holders = set()
    assert job.step(1.0).start == 1  # it has fallen silent since


def test_one_that_replaces_itself_and_never_comes_back_is_ended_and_replaced() -> None:
    job = running(warm=0)
    job.holders = set()
    job.returning = {"p0": job.now}
    assert job.step(COMES_WITHIN - 1).end == ()
    plan = job.step(1.0)
    assert (plan.end, job.crew.failures) == (("p0",), 1)
    assert job.step(FIRST_PAUSE).start == 1


@pytest.mark.parametrize("how", [ProcessEnd(1, "no Java"), ProcessEnd(-9)])
def test_one_that_ends_while_it_replaces_itself_is_replaced(how: ProcessEnd) -> None:
    job = running(warm=0)
    job.holders = set()
    job.returning = {"p0": job.now}
    assert job.step(5.0).start == 0
    job.step(5.0, p0=how)
    assert job.step(FIRST_PAUSE).start == 1


def test_one_that_stood_by_and_is_not_heard_is_replaced_and_may_come_back() -> None:
    job = running(warm=1)
    job.standing_by = set()
    assert job.step().start == 1
    job.standing_by = {"p1", "p2"}
    assert job.step(5.0).end == ()
    assert job.step(SURPLUS_FOR).end == ("p2",)
    job.standing_by = {"p1"}
    assert job.step(5.0, p2=ProcessEnd(0)).start == 0
    assert job.crew.failures == 0


def test_surplus_is_ended_only_among_those_that_stand_by_here() -> None:
    job = running(warm=1)
    job.standing_by |= {"x", "y"}
    assert job.step().end == ()
    assert job.step(SURPLUS_FOR).end == ("p1",)
    assert job.step(SURPLUS_FOR, p1=ProcessEnd(0)).end == ()
    assert job.alive == ["p0"]


def test_pauses_grow_to_a_bound_and_then_it_gives_up_until_it_is_asked_to_try_again() -> None:
    job, pauses = Job(), []
    for _ in range(LIMIT):
        begun, waited = job.made, 0.0
        while job.step().start == 0:
            waited += 0.25
            job.now += 0.25
        pauses.append(waited)
        plan = job.step(0.5, **{f"p{begun}": CRASH})
    assert pauses == [0.0] + [min(LONGEST_PAUSE, 2.0**n) for n in range(LIMIT - 1)]
    assert plan.news[-1] == (f"gave up starting containers after {LIMIT} failures in a row", CRASH.how)
    assert job.crew.gave_up
    again = [job.step(LONGEST_PAUSE) for _ in range(10)]
    assert {(plan.start, plan.news) for plan in again} == {(0, ())}
    job.begun = job.now
    assert job.step().start == 1
    assert (job.crew.gave_up, job.crew.failures) == (False, 0)


def test_those_that_were_started_together_and_fail_together_are_one_failure() -> None:
    job = Job(wanted=4)
    job.step()
    for n in range(4):
        job.step(0.1, **{f"p{n}": CRASH})
    assert job.crew.failures == 1
    assert job.step(FIRST_PAUSE).start == 4


def test_failures_are_forgotten_after_one_has_run_well() -> None:
    job = running(warm=0)
    job.step(p0=CRASH)
    job.holders = set()
    assert job.step(FIRST_PAUSE).start == 1
    job.holders = {"p1"}
    job.step(5.0)
    job.step(RUNS_WELL - 1)
    assert job.crew.failures == 1
    job.step(1.0)
    assert job.crew.failures == 0


def test_one_that_was_there_before_the_failure_proves_nothing() -> None:
    job = running(warm=1)
    job.step(RUNS_WELL, p1=CRASH)
    job.step(0.5)
    assert job.crew.failures == 1


def test_one_that_waits_for_task_slots_is_let_wait_and_proves_nothing() -> None:
    """A failure while it waits still counts as one of several in a row."""
    job = Job()
    job.step()
    assert job.step(1.0, p0=CRASH).start == 0
    assert job.step(FIRST_PAUSE).start == 1
    job.waiting = {"p1"}
    for _ in range(3):
        plan = job.step(COMES_WITHIN)
        assert (plan.start, plan.end, job.crew.failures) == (0, (), 1)
    job.waiting = set()
    job.step(1.0, p1=CRASH)
    assert job.crew.failures == 2


def test_one_that_never_asks_for_a_seat_has_failed_and_is_ended() -> None:
    job = Job()
    job.step()
    assert job.step(COMES_WITHIN - 1).end == ()
    plan = job.step(1.0)
    assert plan.end == ("p0",)
    assert "didn't ask for a seat" in job.crew.reason
    assert job.step(FIRST_PAUSE).start == 1
    job.step(1.0, p0=ProcessEnd(-15))
    assert job.crew.failures == 1


def test_a_job_that_stops_gets_none_and_its_holder_may_take_its_time() -> None:
    job = running(warm=1)
    job.wanted = 0
    plan = job.step(10 * ENDS_WITHIN, p1=CRASH)
    assert (plan.start, plan.end, job.crew.failures) == (0, (), 0)


def test_a_job_that_has_ended_leaves_nobody() -> None:
    job = running(warm=1)
    job.wanted, job.over, job.holders, job.standing_by = 0, True, set(), set()
    job.step()
    assert job.step(ENDS_WITHIN).end == ("p0", "p1")
    assert job.step(ENDS_WITHIN, p1=ProcessEnd(0)).kill == ("p0",)
    assert job.step(1.0, p0=ProcessEnd(-9)).crew.members == ()


def test_a_restart_is_told_from_a_start() -> None:
    crew, again = launch_policy.joined(Crew(owed=1), "p1", 5.0)
    assert again
    assert not launch_policy.joined(crew, "p2", 5.0)[1]


def test_what_is_shown_counts_those_that_are_of_use() -> None:
    job = running(warm=1)
    job.step(p1=CRASH)
    demand = Demand(job="delays", wanted=2, holders=frozenset({"p0", "x"}))
    shown = launch_policy.shown(job.crew, demand, "/logs")
    assert (shown.wanted, shown.running, shown.failures, shown.reason) == (2, 2, 1, CRASH.how)
