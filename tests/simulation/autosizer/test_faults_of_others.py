"""What other autoscalers were reported to do wrong, as loads and figures for ours."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest

from anabranch.coordinator.sizing import autosizing
from anabranch.coordinator.sizing.findings import Findings
from anabranch.coordinator.sizing.scalability import UNKNOWN
from tests.simulation.autosizer import checks, simulator, traces
from tests.simulation.autosizer.simulator import Run, Trace, Work
from tests.unit.coordinator.figures import BEHIND, LIMITS, LONG, decided, going_on, report, status

WORK = Work(0.002, shares=traces.even())  # 850 records a second at factor 1


def trace(arriving: traces.Rate, seconds: int = 240, work: Work = WORK, **given: Any) -> Trace:
    return Trace("reported", seconds, arriving, work, given.pop("limits", traces.limits()), **given)


def ran(of: Trace) -> Run:
    run = simulator.run(of)
    assert checks.broken(run) == []
    return run


def test_a_lag_below_zero_is_none() -> None:
    """kedacore/keda 2612: a lag of -2 made it scale to the maximum."""
    ahead = report(working=0.3, busy=0.5, arriving=50.0)
    told = status(ahead.changed(positions={"embedded/flights/0": 2}))
    assert decided(told, seconds=60).factor is None
    assert decided(told).factor in {None, 2}


def test_a_load_between_gets_a_factor_between() -> None:
    """kedacore/keda 1983: from the minimum to the maximum for any load."""
    run = ran(trace(traces.step(200, 1500, 30), 100))
    assert run.factors[-1] in {4, 8}


def test_the_maximum_can_be_reached() -> None:
    """kedacore/keda 2908 and 4791: it stayed just below the maximum, however large the lag was."""
    assert decided(status(report(lag=10**7, **BEHIND), factor=32)).factor == 64


def test_partitions_without_lag_do_not_count() -> None:
    """kedacore/keda 5880: the lag of a single partition scaled others, too. Here its buckets help it, if keys allow."""
    one = ((1 / 500,) * 500, (0.0,) * 500)
    run = ran(trace(traces.step(100, 900, 30), 120, Work(0.002, shares=one)))
    assert run.factors[-1] in {4, 8}


def test_it_comes_down_once_the_lag_is_gone() -> None:
    """kedacore/keda 1962, 2033, 4552: it stayed at the maximum for ever."""
    run = ran(trace(traces.constant(0.0), backlog=300_000.0))
    assert max(run.factors) >= 16
    assert run.factors[-1] == 1


def test_nothing_falls_while_a_backlog_is_worked_on() -> None:
    """FLINK-31318: with a backlog, it scaled what wasn't busy down, and the backlog grew by the restart."""
    run = ran(trace(traces.constant(100), 120, backlog=200_000.0, limits=traces.limits(8, cooldown="5 seconds")))
    first = next(second for second, backlog in enumerate(run.backlogs) if backlog < 1000)
    assert first > 30
    assert [change for change in run.changes if change.after < change.before and change.at < first] == []


def test_nothing_to_do_is_no_speed_of_zero() -> None:
    """FLINK-30575 and 33306: rates of zero kept a job at its size, or gave NaN."""
    run = ran(trace(traces.step(3000, 0, 60)))
    assert max(run.factors) >= 8
    assert run.factors[-1] == 1


def test_no_speed_yet_is_no_slowness() -> None:
    """FLINK-30575: with rates near zero at first, it scaled to the maximum."""
    assert decided(status(report(lag=60_000, **{**BEHIND, "rows_per_second": 0.0, "working": 0.0}))).factor is None
    assert decided(status(report(lag=60_000, **{**BEHIND, "span": 0.0}))).factor is None


def test_figures_that_are_away_are_no_zeros() -> None:
    """FLINK-39925: metrics that were away counted as zero, and a busy job was scaled down."""
    findings = Findings()
    for second in range(400):
        away = second % 50 > 25
        its = report(working=0.0 if away else 0.65, span=0.0 if away else 30.0, busy=0.0 if away else 1.0)
        told = going_on(status(its), second)
        look, findings = autosizing.looked(LIMITS, told, 64, 1.0, findings, float(second))
        assert autosizing.decide(LIMITS, told, LONG, math.inf, look, findings, float(second)).factor is None


@pytest.mark.parametrize("hot", [1e-12, 1e12])
def test_the_speed_of_another_factor_is_a_number_whatever_was_seen(hot: float) -> None:
    """FLINK-39890: a baseline of zero made the observed scalability NaN, and nothing was scaled any more."""
    seen = UNKNOWN
    for second in range(40):
        seen = seen.seen(1, 1e-3, float(second))
    for second in range(40):
        seen = seen.seen(16, hot, 40.0 + second)
    assert 0.0 <= seen.exponent(16) <= 1.0


def test_a_day_has_few_changes() -> None:
    """FLINK-36018: more than twenty changes a day for a load that goes up and down once."""
    day = trace(traces.wave(100, 4000, 3600), 3600, limits=traces.limits(64, cooldown="2 minutes"), turns=1)
    run = ran(day)
    assert len(run.changes) <= 9, run.changes


def test_who_takes_over_does_nothing_rash() -> None:
    """knative/serving 2705 and 4795: after a restart it went from 7 to 1 by the figures of two seconds."""
    told = status(report(working=0.05), factor=16)
    assert decided(told, seconds=100).factor is None


def test_what_was_told_before_a_change_says_nothing_after_it() -> None:
    """FLINK-30464: figures of the time before a change led to the next one."""
    run = ran(trace(traces.step(200, 1200, 30), delay=2, pause=6.0, foretold=6.0))
    rises = [change for change in run.changes if change.after > change.before]
    assert len(rises) <= 2
    assert all(after.at - before.at >= 16 for before, after in pairwise(rises))


def test_a_broker_that_is_away_lets_nothing_fall() -> None:
    """kedacore/keda 4098: while a broker was replaced, it scaled to zero."""
    halted = trace(
        traces.step(2500, 2500, 0), 200, halts=((80.0, 140.0),), limits=traces.limits(64, cooldown="10 seconds")
    )
    run = simulator.run(halted)
    assert [each for each in run.changes if 80 <= each.at < 140 and each.after < each.before] == []
