"""Windows as a job file names them: what they hold, how they are refused, and when those of processing time close."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch import Job, Session, Sliding, Tumbling, session, sliding, tumbling
from anabranch.errors import GraphError
from anabranch.event_time import processing, windows
from anabranch.event_time.windows import Window
from anabranch.operators.rules import is_by_intake, is_windowed
from anabranch.planning import stages

MINUTE, HOUR = 60_000, 3_600_000

LENGTHS = st.integers(1, 10**7)
SLIDINGS = st.tuples(LENGTHS, LENGTHS).map(lambda both: Sliding(max(both), min(both)))
WINDOWS = st.one_of(LENGTHS.map(Tumbling), SLIDINGS, LENGTHS.map(Session))


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        (tumbling("1 hour"), Tumbling(HOUR)),
        (sliding("1 hour", "10 minutes"), Sliding(HOUR, 10 * MINUTE)),
        (sliding("1 hour", "1 hour"), Sliding(HOUR, HOUR)),
        (session("30 minutes"), Session(30 * MINUTE)),
    ],
)
def test_a_window_is_kept_in_the_graph_as_it_was_named(window: Window, expected: Window) -> None:
    assert window == expected
    assert windows.of_builtins(json.loads(json.dumps(windows.to_builtins(window)))) == expected


@pytest.mark.parametrize(
    ("make", "what", "cure"),
    [
        (lambda: sliding("an hour", "1 minute"), "sliding: 'an hour' is no duration", 'sliding("1 hour", "10'),
        (lambda: sliding("1 hour", "0 minutes"), "sliding: a window of '0 minutes' holds nothing", "sliding("),
        (
            lambda: sliding("10 minutes", "1 hour"),
            "windows of '10 minutes' that begin every '1 hour' leave out what is between them",
            "the slide is no longer than the size",
        ),
        (lambda: session("0 seconds"), "session: a window of '0 seconds' holds nothing", 'session("30 minutes")'),
        (lambda: session("1 month"), "session: '1 month' is no duration", 'session("30 minutes")'),
        (
            lambda: Job("j").read("a").window(session("1 hour")).agg(n="count(*)", emit="on_update"),
            'has emit="on_update", but the end of a session isn\'t known until it is over',
            'emit="on_close"',
        ),
        (
            lambda: Job("j").read("a").window(tumbling("1 hour"), time="intake"),  # type: ignore[arg-type]
            "has time='intake'",
            'time="processing"',
        ),
        (lambda: Job("j").read("a").window("1 hour"), "was given '1 hour', not a window", "tumbling"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_window_is_told_its_cure(make: Any, what: str, cure: str) -> None:
    with pytest.raises(GraphError) as caught:
        make()
    assert what in caught.value.what
    assert cure in caught.value.cure


@given(SLIDINGS, st.integers(-(10**13), 10**13))
def test_a_time_is_in_as_many_windows_as_begin_within_their_size(window: Sliding, at: int) -> None:
    few = Sliding(window.slide * min(5, window.size // window.slide) + window.size % window.slide, window.slide)
    starts = few.starts_of(at)
    assert starts == sorted(starts)
    near = range((at - few.size) // few.slide - 1, at // few.slide + 2)
    assert starts == [n * few.slide for n in near if n * few.slide <= at < n * few.slide + few.size]


def test_windows_of_processing_time_need_no_event_time() -> None:
    job = Job("j")
    read = job.read("in", key="k string", schema="n int")
    read.window(tumbling("1 hour"), time="processing").agg(n="count(*)").write("out")
    (node,) = [node for node in job.graph.nodes if node.kind == "agg"]
    assert (is_by_intake(node), is_windowed(node)) == (True, False)
    assert [stage.stateful for stage in stages.cut(job.graph)] == [(node,)]


def last_end_of(window: Window, at: int) -> int:
    """Where the last window of a record ends."""
    match window:
        case Tumbling(size):
            return window.start_of(at) + size
        case Sliding(size, slide):
            return Tumbling(slide).start_of(at) + size
        case Session(gap):
            return at + gap


@pytest.mark.parametrize(
    ("window", "newest", "now", "expected"),
    [
        (Tumbling(10), 25, 25, 20),
        (Tumbling(10), 25, 29, 20),
        (Tumbling(10), 25, 30, 30),
        (Tumbling(10), 25, 99, 30),
        (Sliding(20, 10), 25, 25, 20),
        (Sliding(20, 10), 25, 39, 30),
        (Sliding(20, 10), 25, 99, 40),
        (Sliding(25, 10), 25, 44, 35),
        (Session(5_000), 20_100, 20_100, 20_000),
        (Session(5_000), 20_100, 25_999, 25_000),
        (Session(5_000), 20_100, 26_000, 26_000),
        (Session(5_000), 20_100, 99_000, 26_000),
        (Session(5_000), 20_000, 99_000, 26_000),
        (Session(100_000), 20_000, 125_000, 120_000),
        (Session(100_000), 20_000, 999_000, 130_000),
    ],
)
def test_up_to_when_windows_of_processing_time_are_closed(window: Window, newest: int, now: int, expected: int) -> None:
    assert processing.closed(window, newest, now) == expected


@given(WINDOWS, st.integers(0, 10**13), st.integers(0, 10**9), st.integers(0, 10**9))
def test_windows_of_processing_time_close_in_time_and_then_it_is_still(
    window: Window, newest: int, later: int, more: int
) -> None:
    now = newest + later
    closed = processing.closed(window, newest, now)
    assert closed <= now, "a record that comes now could be of a window that is closed"
    assert closed <= processing.closed(window, newest, now + more), "it goes backwards"
    last = last_end_of(window, newest)
    margin = max(1_000, window.gap // 10) + 1 if isinstance(window, Session) else 0
    for_ever = processing.closed(window, newest, last + margin)
    assert for_ever > last if isinstance(window, Session) else for_ever == last
    assert processing.closed(window, newest, last + margin + more) <= last + 2 * margin


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ({"on_late": "ignore"}, "has on_late='ignore'"),
        ({"on_late": "fail", "time": "processing"}, "no row is late in windows of processing time"),
    ],
)
def test_what_becomes_of_late_rows_is_one_of_three(words: dict[str, Any], what: str) -> None:
    with pytest.raises(GraphError, match=what):
        Job("j").read("a").window(tumbling("1 hour"), **words)


def test_only_what_isn_t_usual_stands_in_the_graph() -> None:
    """So a job that is served goes on as it is."""
    job = Job("j")
    read = job.read("a", key="k string", schema="at timestamp", event_time="at", watermark="1 hour")
    read.window(tumbling("1 hour"), time="event", on_late="drop").agg(n="count(*)").write("one")
    read.window(tumbling("1 hour"), on_late="fail").agg(n="count(*)").write("two")
    said = [node.args["window"] for node in job.graph.nodes if node.kind == "agg"]
    assert said == [{"kind": "tumbling", "size": HOUR}, {"kind": "tumbling", "size": HOUR, "on_late": "fail"}]
