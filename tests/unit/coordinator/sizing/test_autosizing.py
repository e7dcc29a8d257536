"""The coordinator's own autosizer: what it makes of a job's figures, and when it leaves a job alone."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.config import AutoscaleSettings
from anabranch.container.load import Load
from anabranch.coordinator.sizing import autosizing
from anabranch.coordinator.sizing.autosizing import Verdict
from anabranch.coordinator.sizing.findings import Findings
from anabranch.model.factor import FACTORS
from anabranch.protocol.lane_report import BatchProgress, LanePhase, LaneReport
from anabranch.protocol.status import JobStatus
from tests.support.reports import lane_report
from tests.unit.coordinator.figures import BEHIND, LIMITS, LONG, SSP, decided, going_on, report, status
from tests.unit.coordinator.helpers import FIRST, SECOND


@pytest.mark.parametrize(
    ("figures", "factor"),
    [
        ({"working": 0.7}, None),
        ({"working": 0.71}, 8),
        ({"working": 1.0}, 8),
        ({"working": 0.29}, None),
        ({"working": 0.27}, 2),
        ({"working": 0.1}, 1),
        ({"working": 0.0}, 1),
        ({"working": 0.0, "rows_per_second": 0.0, "busy": 0.0}, 1),
        ({"working": 0.5, "busy": 1.0}, None),
        ({"working": 1.0, "busy": 1.0, "arriving": 10.0}, 1),  # it has caught up, and 10 of 100 a second are left
    ],
)
def test_the_factor_follows_how_much_functions_work(figures: dict[str, Any], factor: int | None) -> None:
    assert decided(status(report(**figures))).factor == factor


@pytest.mark.parametrize(
    ("figures", "factor"),
    [
        ({"lag": 200, "arriving": 60.0}, None),  # what a batch takes is no backlog
        ({"lag": 4_000}, None),  # it is gone in a minute
        ({"lag": 6_000}, 8),
        ({"lag": 60_000}, 64),
        ({"lag": 60_000, "working": 0.5}, 32),  # what isn't functions takes too long with any: nearly the best
        ({"lag": 60_000, "working": 0.1}, None),
        ({"lag": 60_000, "arriving": 1000.0}, 64),
        ({"lag": 6_000, "arriving": 250.0}, 32),
        ({"lag": 60_000, "rows_per_second": 0.0}, None),
        ({"lag": 60_000, "rows_per_second": 5000.0}, None),
        ({"lag": 60_000, "skew": 40.0}, None),  # a hot key
        ({"lag": 60_000, "sequential": True}, None),  # one key after another, with any factor
        ({"lag": 60_000, "skew": 4.0}, 32),
    ],
)
def test_the_factor_follows_how_long_records_wait(figures: dict[str, Any], factor: int | None) -> None:
    assert decided(status(report(**{**BEHIND, **figures}))).factor == factor


def test_records_that_wait_raise_it_within_three_seconds() -> None:
    behind = status(report(lag=60_000, **{**BEHIND, "span": 1.0}), factor=1)
    assert decided(behind, since=0.0, seconds=2).factor is None
    assert decided(behind, since=0.0, seconds=3).factor == 32


def test_a_batch_that_runs_says_how_fast_it_is() -> None:
    """The first batch of a lane: nothing was committed, and 30 of its 30,000 records are done."""
    progress = BatchProgress(
        number=0, planned=30_000, done=1500, phase="functions", seconds=3.0, spent={"functions": 2.8}
    )
    running = report(lag=60_000, rows_per_second=0.0, seconds=0.0, span=0.0, batch_progress=progress)
    quick = LIMITS.model_copy(update={"target_lag_seconds": 10.0})
    assert decided(status(running, factor=1), quick, seconds=3).factor == 32


def test_the_speed_of_a_short_batch_is_not_taken_with_the_work_of_a_longer_one() -> None:
    """A first batch of 0.4 s, most of which it took to start, tells that 257 records a second are done. Functions have
    worked for a large part of the time since, as the next batch is larger: they are much faster than that."""
    progress = BatchProgress(number=1, planned=600, done=600, phase="committing", seconds=0.5, spent={"functions": 0.3})
    figures = {"lag": 128_000, "rows_per_second": 257.0, "seconds": 0.4, "span": 1.0, "busy": 1.0, "working": 0.4}
    found = decided(status(report(**figures, batch_progress=progress), factor=1), seconds=4, pause=100.0)
    assert found.factor is None
    assert "1,200 are processed" in found.why


def test_what_a_change_costs_counts() -> None:
    behind = status(report(lag=6_500, **BEHIND))
    assert decided(behind, pause=1.0).factor == 8
    assert decided(behind, pause=40.0).factor == 64
    assert decided(behind, pause=70.0).factor is None


def test_the_busiest_lane_decides() -> None:
    idle, busy = report(FIRST, working=0.01), report(SECOND, working=0.9)
    found = decided(status(idle, busy))
    assert found.factor == 8
    assert found.why == (
        f"lane {SECOND}: functions work 90% of the time on their busiest bucket; "
        "the target is 70%, and no backlog after 60 s"
    )


def test_a_lane_that_no_factor_helps_does_not_hide_one_that_it_does() -> None:
    jvm, slow = report(FIRST, lag=60_000, **{**BEHIND, "working": 0.1}), report(SECOND, lag=6_000, **BEHIND)
    found = decided(status(jvm, slow))
    assert found.factor == 8
    (text,) = found.advice
    assert text.startswith(f"lane {FIRST}: Python functions take 10% of its time")


def test_it_says_what_made_it_decide() -> None:
    behind = report(lag=6_000, arriving=250.0, **BEHIND)
    assert decided(status(behind)).why == (
        f"lane {FIRST}: 6,000 records wait, 250 arrive and 100 are processed per second; time to catch up: unlimited; "
        "with factor 32: 19 s, including the pause; the target is 70%, and no backlog after 60 s"
    )
    assert decided(status(report(working=0.1))).why == (
        f"lane {FIRST}: functions work 10% of the time on their busiest bucket; it would be 40% with factor 1; "
        "the target is 70%, and no backlog after 60 s"
    )


@pytest.mark.parametrize(
    ("told", "threads", "advice"),
    [
        (status(report(lag=60_000, sequential=True, **BEHIND)), 64, "one key after another"),
        (status(report(lag=60_000, **{**BEHIND, "working": 0.1})), 64, "more partitions (it has 1) or more containers"),
        (status(report(lag=60_000, skew=40.0, slowest=f"{SSP}#3", **BEHIND)), 64, f"bucket {SSP}#3 has 40.0 times"),
        (status(report(lag=60_000, **BEHIND)), 4, "more job.threads would help"),
        (status(report(working=1.0), factor=64), 64, "factor 64 is the largest allowed"),
    ],
)
def test_it_says_what_would_help_where_no_factor_does(told: JobStatus, threads: int, advice: str) -> None:
    found = decided(told, threads=threads)
    assert found.factor is None
    (text,) = [each for each in found.advice if advice in each]
    assert text.startswith(f"lane {FIRST}: ")


def test_it_has_no_advice_where_the_factor_helps_or_nothing_must_be_helped() -> None:
    assert decided(status(report(lag=6_000, **BEHIND))).advice == ()
    assert decided(status(report(working=0.5))).advice == ()


BUSY = report(working=1.0)


@pytest.mark.parametrize(
    ("told", "since", "undone", "why"),
    [
        (status(BUSY, state="changing"), LONG, False, "the job is changing"),
        (status(BUSY, state="starting"), LONG, False, "the job is starting"),
        (status(BUSY, generation=2), 119.0, False, "the factor stays for 1 s"),
        (status(BUSY, generation=2), -5.0, False, "the factor stays for 125 s"),
        (status(report(working=0.1)), 0.0, False, "if this is still the case in 120 s"),
        (status(BUSY), 1199.0, True, "was undone 1199 s ago: the factor stays for 1200 s"),
        (status(None), LONG, False, "sends no heartbeats"),
        (status(BUSY, alive=False), LONG, False, "sends no heartbeats"),
        (status(BUSY, report(SECOND, phase=LanePhase.STARTING)), LONG, False, f"lane {SECOND} doesn't run"),
        (status(BUSY, report(SECOND, phase=LanePhase.FAILED)), LONG, False, f"lane {SECOND} doesn't run"),
        (status(BUSY, report(SECOND, span=0.0)), LONG, False, "there are no figures yet"),
        (status(BUSY, report(SECOND, span=9.0)), LONG, False, "cover only 9 s"),
        (status(report(working=0.1, ends_known=False)), LONG, False, "its inputs don't report their end offsets"),
        (status(report(working=0.1, span=19.0)), LONG, False, "if this is still the case in 1 s"),
        (status(), LONG, False, "there are no lanes"),
        (status(BUSY, factor=128), LONG, False, "choose again: anabranch scale delays --factor 64"),
        (status(BUSY, factor=64), LONG, False, "functions work 100% of the time"),
    ],
)
def test_a_job_is_left_alone(told: JobStatus, since: float, undone: bool, why: str) -> None:
    found = decided(told, since=since, undone=undone, seconds=200 if since == LONG else 60)
    assert found.factor is None
    assert why in found.why


def test_after_the_cooldown_it_is_not() -> None:
    again = status(BUSY, generation=2)
    assert decided(again, since=120.0).factor == 8
    assert decided(again, since=1200.0, undone=True).factor == 8
    soon = AutoscaleSettings(max=64, cooldown="5 seconds")
    assert decided(again, soon, since=5.0).factor == 8


PATIENT = LIMITS.model_copy(update={"target_busy": 0.3, "cooldown": "30 minutes"})


def test_in_the_cooldown_a_busy_lane_does_not_hide_one_whose_records_wait_too_long() -> None:
    """The busy lane needs factor 8 and has to wait for the cooldown; the other lane needs factor 4 now."""
    busy, late = report(FIRST, working=1.0), report(SECOND, lag=7_000, **{**BEHIND, "arriving": 0.0})
    both = status(busy, late, factor=2, generation=2)
    found = decided(both, PATIENT, since=120.0, seconds=3)
    assert found.factor == 4
    assert found.why.startswith(f"lane {SECOND}: 7,000 records wait")
    assert found.need is not None
    assert "the factor stays for 1680 s" in decided(status(busy, factor=2, generation=2), PATIENT, since=120.0).why
    assert decided(both, PATIENT).factor == 4, "the lane whose records wait is helped first"


def test_in_the_cooldown_records_must_wait_too_long_in_each_look() -> None:
    """Looks that found functions merely busy don't count."""
    findings, verdicts = Findings(), []
    for second in range(100, 133):
        lag = 12_000 if second >= 130 else 0
        its = report(lag=lag, **{**BEHIND, "arriving": 70.0})
        told = going_on(status(its, factor=2, generation=2), second)
        look, findings = autosizing.looked(PATIENT, told, 64, 1.0, findings, float(second))
        verdicts.append(autosizing.decide(PATIENT, told, float(second), math.inf, look, findings, float(second)))
    assert [each.factor is None for each in verdicts] == [True] * 32 + [False]
    assert "must be the case for 2 s" in verdicts[-2].why


def test_figures_that_are_old_decide_nothing() -> None:
    """Records wait, and the very same report is there for five seconds: its container may be frozen."""
    told, findings = status(report(lag=60_000, **BEHIND)), Findings()
    factors, why = [], ""
    for second in range(60):
        look, findings = autosizing.looked(LIMITS, told, 64, 1.0, findings, 100.0 + 5 * second)
        verdict = autosizing.decide(LIMITS, told, LONG, math.inf, look, findings, 100.0 + 5 * second)
        factors, why = [*factors, verdict.factor], verdict.why
    assert set(factors) == {None}
    assert why == f"lane {FIRST}: its figures are 295 s old"


@pytest.mark.parametrize(("phase", "factor"), [("functions", 64), ("reading", None), ("publishing", None)])
def test_a_lane_that_does_nothing_tells_nothing(phase: str, factor: int | None) -> None:
    """As where a broker doesn't answer: seconds pass in a batch, and no record is done. A function may take long."""
    findings, found = Findings(), None
    for second in range(10, 30):
        progress = BatchProgress(number=3, planned=9000, done=90, phase=phase, seconds=float(second))
        told = status(report(lag=60_000, batch_progress=progress, **BEHIND), generation=1)
        look, findings = autosizing.looked(LIMITS, told, 64, 1.0, findings, float(second))
        if second >= 16:
            found = found or autosizing.decide(LIMITS, told, LONG, math.inf, look, findings, float(second)).factor
    assert found == factor


def test_the_same_figures_of_a_lane_at_work_let_nothing_fall() -> None:
    """Its container may be frozen; one that has nothing to do says the same for ever."""
    verdicts = {}
    for name, told in (("at work", report(working=0.1)), ("idle", report(working=0.0, rows_per_second=0.0, busy=0.0))):
        findings = Findings()
        for second in range(140):
            look, findings = autosizing.looked(LIMITS, status(told), 64, 1.0, findings, float(second))
            verdicts[name] = autosizing.decide(LIMITS, status(told), LONG, math.inf, look, findings, float(second))
    assert verdicts["idle"].factor == 1
    assert verdicts["at work"].factor is None
    assert verdicts["at work"].why == f"lane {FIRST}: its figures are 139 s old"


def test_a_fall_waits_until_all_looks_of_the_cooldown_agree() -> None:
    findings, verdict = Findings(), Verdict(None, "")
    for second in range(200):
        told = going_on(status(report(working=0.27 if second == 60 else 0.1)), second)
        look, findings = autosizing.looked(LIMITS, told, 64, 1.0, findings, float(second))
        verdict = autosizing.decide(LIMITS, told, LONG, math.inf, look, findings, float(second))
        assert verdict.factor is None or second >= 120
        if verdict.factor is not None:
            break
    assert verdict.factor == 2, "the largest that was needed meanwhile"


factors = st.sampled_from(FACTORS)
parts = st.floats(0, 1)
targets = st.floats(0.05, 0.95)


@st.composite
def ranges(draw: st.DrawFn) -> AutoscaleSettings:
    low, high = sorted((draw(factors), draw(factors)))
    lag = draw(st.floats(1, 86_400))
    return AutoscaleSettings(
        min=low, max=high, target_busy=draw(targets), target_lag_seconds=lag, cooldown="10 seconds"
    )


@given(
    ranges(),
    factors,
    parts,
    parts,
    st.floats(0, 1e9),
    st.floats(0, 1e9),
    st.integers(0, 10**12),
    st.floats(0, 1e4),
    st.floats(0, 1e5),
    st.integers(1, 1024),
    st.one_of(
        st.none(),
        st.builds(
            BatchProgress,
            number=st.just(0),
            planned=st.integers(0, 10**9),
            done=st.integers(0, 10**9),
            phase=st.sampled_from(["reading", "functions", "state", "publishing", "committing"]),
            seconds=st.floats(0, 1e6),
            spent=st.dictionaries(st.sampled_from(["functions", "reading"]), st.floats(0, 1e6)),
        ),
    ),
)
def test_it_never_leaves_its_range(
    limits: AutoscaleSettings,
    factor: int,
    working: float,
    busy: float,
    arriving: float,
    read: float,
    lag: int,
    seconds: float,
    skew: float,
    threads: int,
    progress: BatchProgress | None,
) -> None:
    figures = {"working": working, "busy": busy, "arriving": arriving, "seconds": seconds, "skew": skew}
    told = report(lag=lag, rows_per_second=read, batch_progress=progress, **figures)
    found = decided(status(told, factor=factor), limits, threads=threads, seconds=14)
    assert found.why
    if found.factor is not None:
        assert limits.min <= found.factor <= limits.max
        assert found.factor in FACTORS
        assert found.factor != factor
        assert limits.min <= factor <= limits.max
        assert factor <= 4 * found.factor


def batch(seconds: float, end: int, at: int | None = None) -> LaneReport:
    return lane_report(FIRST, LanePhase.RUNNING, seconds=seconds, ends={SSP: end}, positions={SSP: at or end})


def test_a_lane_that_has_nothing_to_read_becomes_idle() -> None:
    load = Load()
    for at in range(0, 40, 2):
        load.ran(batch(2.0, at), float(at), {(0, 1): 1.5, (0, 2): 0.5})
    assert (load.busy, load.working, load.span) == (1.0, 0.75, 30.0)
    assert not any(load.idled(batch(2.0, 50, at=38), float(at)) for at in range(38, 90)), "it is in a long batch"
    assert load.working == 0.75
    assert load.idled(batch(2.0, 38), 39.0)
    assert not load.idled(batch(2.0, 38), 39.5)
    for at in range(40, 80):
        load.idled(batch(2.0, 38), float(at))
    assert (load.busy, load.working, load.arriving, load.span) == (0, 0, 0, 30.0)


def test_nothing_is_known_before_the_ends_are() -> None:
    load = Load()
    assert not load.idled(lane_report(lane=FIRST, phase=LanePhase.RUNNING), 1.0)
    assert load.span == 0
