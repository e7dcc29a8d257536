"""How far a batch is, by what its tasks tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.container.batch_progress import PlannedBatch, Tracker
from anabranch.container.load import Load
from anabranch.model.ssp import WHOLE
from anabranch.protocol.lane_report import BatchProgress, LanePhase, LaneReport
from anabranch.task_progress.counts import PUBLISHING, READING, Count, Received, TaskCounts, TaskReport
from tests.support.reports import lane_report

SLOW = "map 'slow'"
ONE = PlannedBatch(number=7, ranges={(0, 0): (100, 1100)}, labels={SLOW: {0}})
TWO = replace(ONE, ranges={(0, 0): (100, 1100), (0, 1): (0, 1000)})


def function(rows: int, offset: int | None = None, label: str = SLOW, at: float = 0.0, **more: Any) -> TaskCounts:
    """A task that has done so many rows of partition 0, of those up to an offset that have come."""
    fields = {"stage": 1, "partition": 0, "attempt": 1, "source": 0, "of": 0, "bucket": WHOLE, "seconds": 1.0}
    given = {**fields, **more}
    source, of = given.pop("source"), given.pop("of")
    reached = offset if offset is not None else 1099
    come = given.pop("come", rows)
    count = Count(0, source, of, given.pop("bucket"), rows, given["seconds"], reached)
    ended = given.pop("ended", False)
    told = TaskReport(
        run="r",
        batch=7,
        label=label,
        alive=given.pop("alive", given["seconds"]),
        counts=(),
        received=(Received(source, of, come, reached),),
        ended=ended,
        **given,
    )
    return TaskCounts(told, (count,), at, not ended)


def publishing(rows: int, at: float = 0.0, slot: int = -1, offset: int = 0, **more: Any) -> TaskCounts:
    told = TaskReport(run="r", batch=7, label=PUBLISHING, **{"stage": 1, "partition": 0, "attempt": 1, **more})
    return TaskCounts(told, (Count(0, 0, slot, WHOLE, rows, told.seconds, offset),), at, not told.ended)


def reading(rows: int, at: float = 0.0, **more: Any) -> TaskCounts:
    told = TaskReport(run="r", batch=7, label=READING, **{"stage": 1, "partition": 0, "attempt": 1, **more})
    return TaskCounts(told, (Count(0, 0, 0, WHOLE, rows, told.seconds),), at, not told.ended)


def waiting(label: str) -> TaskCounts:
    """A task that nothing has come to."""
    return TaskCounts(TaskReport(run="r", batch=7, stage=1, partition=0, attempt=1, label=label), (), 0.0, fresh=True)


def look(heard: Sequence[TaskCounts], planned: PlannedBatch = ONE, now: float = 5.0, **more: Any) -> BatchProgress:
    return Tracker(planned, 0.0).look(heard, now, **more).progress


@pytest.mark.parametrize(
    ("what", "heard", "planned", "done"),
    [
        ("nothing is told yet", [], ONE, 0),
        ("all has come to the function", [function(250, come=1000)], ONE, 250),
        ("as much as was read has come", [function(50, offset=599, come=500)], ONE, 50),
        ("a filter before it leaves a quarter", [function(50, offset=599, come=125)], ONE, 200),
        ("one of two tasks has begun", [function(250, come=1000)], TWO, 250),
        (
            "both of two tasks have",
            [function(250, come=1000), function(500, 999, come=1000, of=1, partition=1)],
            TWO,
            750,
        ),
        ("reading is furthest behind", [function(50, come=1000), reading(20)], ONE, 20),
        ("the function is", [function(50, come=1000), reading(1000)], ONE, 50),
        ("a function hasn't begun", [reading(800)], ONE, 0),
        ("a function waits for its first rows", [reading(1000), waiting(SLOW)], ONE, 0),
        (
            "the rows of the task's first attempt don't count",
            [function(700, come=1000), function(20, come=1000, attempt=2)],
            ONE,
            20,
        ),
        (
            "what another stage does again doesn't count twice",
            [function(700, come=1000), function(20, come=1000, stage=4)],
            ONE,
            700,
        ),
        ("a task that has ended has had all of its rows", [function(25, offset=400, come=25, ended=True)], ONE, 1000),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_what_is_done(what: str, heard: list[TaskCounts], planned: PlannedBatch, done: int) -> None:
    assert look(heard, planned).done == done
    assert look(heard, planned).planned == planned.rows


def test_without_functions_it_goes_by_what_was_read() -> None:
    plain = replace(ONE, labels={})
    assert look([reading(300), publishing(5)], plain).done == 300


def test_rows_of_slots_tell_how_far_their_partitions_are() -> None:
    plain = replace(TWO, labels={}, slots={0: (0, 0), 1: (0, 1)})
    heard = [publishing(5, slot=0, offset=599), publishing(9, slot=1, offset=99, partition=1)]
    assert look(heard, plain).done == 600


def test_of_several_sources_those_count_that_a_function_has_rows_of() -> None:
    places = {(0, 0): (0, 1000), (1, 0): (0, 3000)}
    both = PlannedBatch(number=7, ranges=places, labels={SLOW: {0, 1}})
    assert look([function(1000, offset=999, come=1000)], both).done == 1000
    one = replace(both, labels={SLOW: {0}})
    assert look([function(500, offset=999, come=1000), reading(1000), reading(3000, stage=2)], one).done == 2000


def test_state_comes_after_all_of_what_is_before_it() -> None:
    stateful = replace(ONE, stateful=True, state_tasks=4)
    before = [function(500, come=1000)]
    assert look(before, stateful).done == 250
    after = [function(1000, come=1000, ended=True), publishing(3, stage=2, partition=0, ended=True)]
    assert look([*after, publishing(0, stage=2, partition=1)], stateful).done == 500 + 125
    assert look(after, stateful, step="publishing").done == 1000


def test_a_later_batch_knows_how_much_time_state_takes_and_how_many_rows_come_to_a_function() -> None:
    stateful = replace(ONE, stateful=True, state_tasks=1, labels={SLOW: {0}, "process 'p'": {0}})
    process = TaskReport(run="r", batch=7, stage=2, partition=0, attempt=1, label="process 'p'")
    heard = [
        function(1000, come=1000, ended=True),
        TaskCounts(process, (Count(0, 0, 0, WHOLE, 100, 1.0),), 8.0, fresh=True),
    ]
    first = Tracker(stateful, 0.0)
    first.look(heard[:1], 7.9)
    first.look(heard, 8.0)
    first.look(heard, 10.0)
    again = Tracker(stateful, 0.0, first.ratios)
    assert again.look(heard[:1], 1.0).progress.done == 800
    half = TaskCounts(process, (Count(0, 0, 0, WHOLE, 50, 1.0),), 9.0, fresh=True)
    assert again.look([heard[0], half], 9.0).progress.done == 900


def test_time_left_is_foretold_of_a_steady_function() -> None:
    tracker = Tracker(ONE, 0.0)
    for tenth in range(10, 200):
        now = tenth / 5  # it starts after two seconds, does 25 a second, and tells it every half second
        rows = round(max(0.0, now // 0.5 * 0.5 - 2) * 25)
        progress = tracker.look([function(rows, come=1000)] if rows else [], now).progress
        if now > 4:
            assert progress.left == pytest.approx(42 - now, rel=0.25)
            assert progress.rows_per_second == pytest.approx(25, rel=0.25)


def test_a_bucket_with_most_of_the_rows_is_what_is_waited_for() -> None:
    """Others are through soon, and are no measure of the speed."""
    tracker = Tracker(ONE, 0.0)
    for now in range(1, 8):
        hot, others = 10 * now, min(500, 90 * now)
        counts = (
            Count(0, 0, 0, 0, hot, float(now), 1099, 500),
            Count(0, 0, 0, 1, others, float(now), 1099, 500),
        )
        told = function(hot + others, come=1000).told
        progress = tracker.look([TaskCounts(told, counts, float(now), fresh=True)], float(now)).progress
    assert progress.left == pytest.approx((500 - 70) / 10, rel=0.05)
    assert progress.buckets == {"0/0#0": 70, "0/0#1": 500}


def test_a_task_that_is_run_again_takes_back_what_it_had_done() -> None:
    tracker = Tracker(ONE, 0.0)
    first = function(700, come=1000)
    assert tracker.look([first], 1.0).progress.done == 700
    assert tracker.look([first, function(10, come=1000, attempt=2)], 2.0).progress.done == 10


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 999)), min_size=1, max_size=20))
def test_done_never_falls_and_never_exceeds(told: list[tuple[int, int]]) -> None:
    """Whatever estimates change to."""
    tracker, before = Tracker(ONE, 0.0), 0
    for number, (rows, offset) in enumerate(told):
        heard = [function(min(rows, offset + 1), offset=100 + offset, come=offset + 1)]
        progress = tracker.look(heard, 1.0 + number).progress
        assert before <= progress.done <= progress.planned
        assert sum(progress.spent.values()) == pytest.approx(progress.seconds, abs=0.01)
        before = progress.done


def test_at_most_64_buckets_are_told_those_furthest_behind() -> None:
    counts = tuple(Count(0, 0, 0, bucket, 1000 - bucket, 1.0, 1099, 0) for bucket in range(256))
    progress = look([TaskCounts(function(1).told, counts, 0.0, fresh=True)])
    assert len(progress.buckets) == 64
    assert max(progress.buckets.values()) == 1000 - 192


# Where the time goes


def test_a_function_that_is_always_at_work_has_the_time() -> None:
    heard = [
        function(100, come=1000, seconds=9.0, alive=9.0, at=10.0),
        publishing(10, at=10.0, seconds=0.5, alive=9.0),
        reading(1000, at=10.0, seconds=0.2, alive=9.0),
    ]
    progress = look(heard, now=10.0)
    assert progress.phase == "functions"
    assert progress.spent["functions"] == pytest.approx(9.0 * 9 / 9.7, abs=0.1)
    assert progress.spent["reading"] > 1.0  # until the task began
    assert sum(progress.spent.values()) == pytest.approx(10.0, abs=0.01)


def test_what_java_does_is_reading_before_rows_come_together_and_state_after() -> None:
    plain = replace(ONE, labels={})
    before = look([publishing(10, at=10.0, seconds=1.0, alive=10.0)], plain, now=10.0)
    assert (before.phase, before.spent["reading"]) == ("reading", pytest.approx(9.0, abs=0.1))
    stateful = replace(plain, stateful=True, state_tasks=1)
    after = look([publishing(10, at=10.0, seconds=1.0, alive=6.0)], stateful, now=10.0)
    assert after.phase == "state"
    assert after.spent == {
        "reading": pytest.approx(4.0, abs=0.1),
        "state": pytest.approx(5.0, abs=0.1),
        "publishing": pytest.approx(1.0, abs=0.1),
    }


def test_the_steps_of_the_driver_are_known() -> None:
    tracker = Tracker(ONE, 0.0)
    ended = function(1000, come=1000, seconds=5.0, alive=5.0, at=5.0, ended=True)
    tracker.look([ended], 6.0, "publishing", 5.0)
    progress = tracker.look([ended], 9.0, "committing", 8.0).progress
    assert progress.phase == "committing"
    assert progress.spent == {"functions": 5.0, "publishing": 3.0, "committing": 1.0}
    assert (progress.done, progress.left) == (1000, pytest.approx(0.0))


def test_the_phase_is_what_the_last_seconds_went_into() -> None:
    stateful = replace(ONE, stateful=True, state_tasks=1)
    tracker = Tracker(stateful, 0.0)
    for now in range(1, 10):
        tracker.look([function(100 * now, come=1000, seconds=float(now), alive=float(now), at=float(now))], float(now))
    ended = function(1000, come=1000, seconds=9.0, alive=9.0, at=9.0, ended=True)
    for now in range(10, 13):
        state = publishing(0, at=float(now), stage=2, alive=now - 9.0)
        progress = tracker.look([ended, state], float(now)).progress
    assert progress.phase == "state"


# What the lane's load is meanwhile


def report(batch: int = -1, seconds: float = 0.0, end: int = 0) -> LaneReport:
    return lane_report(lane="0-a", phase=LanePhase.RUNNING, batch=batch, seconds=seconds, ends={"embedded/in/0": end})


def test_a_lane_is_busy_before_its_first_batch_has_ended() -> None:
    load = Load()
    for now in range(1, 5):
        load.runs(report(end=100 * now), 50.0 + now, float(now), {(0, 3): 0.9 * now, (0, 4): 0.2 * now})
    assert load.busy == pytest.approx(1.0)
    assert load.working == pytest.approx(0.9, abs=0.25)
    assert load.arriving == pytest.approx(75, abs=30)
    assert load.span == pytest.approx(4.0)


def test_records_that_were_there_before_the_ends_were_known_have_not_arrived_since() -> None:
    """A lane starts while its inputs' end offsets can't be looked up yet; then they can."""
    load, unknown = Load(), report().changed(ends={})
    load.runs(unknown, 10.0, 0.5, {})
    load.ran(unknown.changed(batch=0, seconds=1.0), 11.0)
    arriving = []
    for now in range(1, 40):
        load.runs(report(end=1_000_000_000 + 5 * now), 11.0 + now, float(now), {})
        arriving.append(load.arriving)
    assert arriving == [0.0, *[pytest.approx(5)] * 38]
    assert load.span == 30.0


def test_a_batch_counts_once_when_it_has_ended() -> None:
    load = Load()
    load.ran(report(0, 1.0), 0.0)
    for now in range(1, 5):
        load.runs(report(0), float(now), float(now), {(0, WHOLE): float(now)})
    load.ran(report(1, 5.0), 5.0, {(0, WHOLE): 5.0})
    load.idled(report(1), 10.0)
    assert load.busy == pytest.approx(0.5)
    assert load.working == pytest.approx(0.5)
    assert load.usual == 3.0


def test_a_batch_that_failed_and_is_run_again_counts_anew() -> None:
    load = Load()
    load.ran(report(0, 1.0), 0.0)
    load.runs(report(0), 8.0, 8.0, {(0, WHOLE): 8.0})
    load.runs(report(0), 10.0, 1.0, {(0, WHOLE): 1.0})
    load.ran(report(1, 2.0), 11.0, {(0, WHOLE): 2.0})
    assert load.busy == pytest.approx(10 / 11)


def test_a_long_batch_is_judged_by_its_last_half_minute() -> None:
    load = Load()
    for now in range(1, 121):
        load.runs(report(end=10 * now), float(now), float(now), {(0, WHOLE): min(60.0, float(now))})
    assert load.working == pytest.approx(0.0)
    assert load.arriving == pytest.approx(10, rel=0.05)


def test_tasks_that_had_nothing_to_do_say_nothing_of_the_one_that_has_it_all() -> None:
    """Of eight tasks that rows come together in, by key, seven have ended, and one has 26 rows done of 500 in 3 s."""
    state = replace(ONE, stateful=True, state_tasks=8, labels={})

    def task(partition: int, rows: int, ended: bool) -> TaskCounts:
        counts = (Count(0, -1, 0, WHOLE, rows, 3.0),) if rows else ()
        fields = {"stage": 2, "partition": partition, "attempt": 1, "alive": 3.0, "seconds": 3.0}
        return TaskCounts(
            TaskReport(run="r", batch=7, label="process 'p'", ended=ended, **fields), counts, 5.0, not ended
        )

    tracker = Tracker(state, 0.0)
    for now in (2.0, 3.0, 4.0, 5.0):
        done = [task(0, 500, ended=True), *(task(each, 0, ended=True) for each in range(1, 7))]
        at = tracker.look([reading(1000, ended=True), *done, task(7, round(26 * (now - 2) / 3) or 1, ended=False)], now)
    assert at.progress.done < 800
    assert at.progress.left is not None
    assert at.progress.left == pytest.approx(474 / 26 * 3, rel=0.1)


def test_of_tasks_those_count_that_call_functions_at_the_same_time() -> None:
    tracker = Tracker(TWO, 0.0)
    first, second = function(250, come=1000), function(500, 999, come=1000, of=1, partition=1)
    assert tracker.look([reading(1000), reading(500, partition=1)], 1.0).tasks == 0
    assert tracker.look([first], 2.0).tasks == 1
    over = function(1000, come=1000, ended=True)
    assert tracker.look([over, second], 3.0).tasks == 1, "one after the other"
    other = function(250, come=1000, label="another", of=1, partition=1)
    assert tracker.look([first, other], 3.5).tasks == 1, "each function in one"
    assert tracker.look([first, second, reading(3, partition=2)], 4.0).tasks == 2
    assert tracker.look([over], 5.0).tasks == 2, "the most of the batch"
