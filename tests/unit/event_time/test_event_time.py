"""Event time: how it is written, the windows it falls into, and lanes' watermarks through everything that happens."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch import Tumbling, tumbling
from anabranch.config import Settings
from anabranch.errors import GraphError, UnsupportedFormatError
from anabranch.event_time import control, durations, progress
from anabranch.event_time.control import Control
from anabranch.event_time.progress import Progress, Upstream
from anabranch.spark.query import clock
from anabranch.spark.query.clock import Clock
from anabranch.spark.query.planned_batch import Batch
from anabranch.systems.systems import Systems
from tests.unit.event_time.helpers import (
    DEATHS,
    DELAY,
    WINDOW,
    Action,
    Expand,
    MemoryLog,
    Merge,
    Recut,
    Row,
    Shape,
    Site,
    Split,
    Take,
    Window,
    ssp_of,
)

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000
NEVER = -float("inf")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10 minutes", 10 * MINUTE),
        ("1 hour 30 minutes", 90 * MINUTE),
        ("1 week 2 days 3 hours 4 minutes 5 seconds 6 milliseconds", 9 * DAY + 3 * HOUR + 4 * MINUTE + 5 * SECOND + 6),
        ("1 Minute", MINUTE),
        ("  2   HOURS ", 2 * HOUR),
        ("90seconds", 90 * SECOND),
        ("1hour30minutes", 90 * MINUTE),
        ("30 minutes 1 hour", 90 * MINUTE),
        ("1 minute 1 minute", 2 * MINUTE),
        ("2 day", 2 * DAY),
        ("1 days", DAY),
        ("0 seconds", 0),
        ("007 seconds", 7 * SECOND),
    ],
)
def test_a_duration_is_milliseconds(text: str, expected: int) -> None:
    assert durations.parse(text) == expected


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        " ",
        "10",
        "minutes",
        "minutes 10",
        "10 m",
        "10 min",
        "1 month",
        "2 years",
        "1.5 hours",
        "-1 hour",
        "+1 hour",
        "1 hour, 30 minutes",
        "1 hour and 30 minutes",
        "1 hourss",
        "1 s",
        "PT1H",
        "1:30",
        "10 minutes 5",
        10,
        None,
        10.5,
        b"10 minutes",
    ],
)
def test_what_is_no_duration_is_told_how_one_is_written(wrong: object) -> None:
    with pytest.raises(ValueError, match="no duration") as caught:
        durations.parse(wrong)
    assert str(caught.value).startswith(f"{wrong!r} is no duration")
    assert "milliseconds, seconds, minutes, hours, days, weeks" in str(caught.value)
    assert "'10 minutes'" in str(caught.value)


@given(
    st.dictionaries(
        st.sampled_from(["millisecond", "second", "minute", "hour", "day", "week"]), st.integers(0, 10**6), min_size=1
    )
)
def test_a_duration_is_the_sum_of_its_parts(parts: dict[str, int]) -> None:
    said = " ".join(f"{number} {unit}{'s' * (number != 1)}" for unit, number in parts.items())
    assert durations.parse(said) == sum(number * durations.parse(f"1 {unit}") for unit, number in parts.items())


@pytest.mark.parametrize(
    ("size", "at", "start"),
    [
        ("1 hour", 0, 0),
        ("1 hour", HOUR - 1, 0),
        ("1 hour", HOUR, HOUR),
        ("1 hour", 1_357_002_000_001, 1_357_002_000_000),
        ("1 hour", -1, -HOUR),
        ("1 hour", -HOUR, -HOUR),
        ("1 week", 0, 0),
        ("7 milliseconds", 20, 14),
        ("1 millisecond", 5, 5),
    ],
)
def test_windows_stand_side_by_side_from_1970_on(size: str, at: int, start: int) -> None:
    assert tumbling(size).start_of(at) == start


@given(st.integers(1, 10 * DAY), st.integers(-(10**15), 10**15))
def test_every_time_is_in_one_window(size: int, at: int) -> None:
    start = Tumbling(size).start_of(at)
    assert start <= at < start + size
    assert start % size == 0
    assert Tumbling(size).start_of(start) == start == Tumbling(size).start_of(start + size - 1)


@pytest.mark.parametrize(
    ("size", "what"),
    [
        ("an hour", "tumbling: 'an hour' is no duration"),
        ("1 month", "tumbling: '1 month' is no duration"),
        (3600, "tumbling: 3600 is no duration"),
        ("0 hours", "tumbling: a window of '0 hours' holds nothing"),
    ],
)
def test_what_is_no_window_is_told_its_cure(size: Any, what: str) -> None:
    with pytest.raises(GraphError) as caught:
        tumbling(size)
    assert what in caught.value.what
    assert 'tumbling("1 hour")' in caught.value.cure


TOLD = Control("s", 70, ("l",), {"s": ("l",), "m": ()}, open=False)


@pytest.mark.parametrize("told", [TOLD, Control("l", None)])
def test_a_control_record_is_read_as_it_was_written(told: Control) -> None:
    written = json.loads(json.dumps(told.to_builtins()))
    assert control.from_builtins({**written, "later": 1}, "s/0") == told


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"version": 2}, "a control record in s/0 has format version 2; this anabranch knows 1"),
        ({"version": None}, "format version None"),
        ({"lane": ...}, "a control record in s/0 is damaged: KeyError('lane')"),
        ({"watermark": ...}, "damaged: KeyError('watermark')"),
        ({"watermark": "soon"}, "damaged: ValueError"),
        ({"watermark": []}, "damaged: TypeError"),
        ({"predecessors": None}, "damaged: TypeError"),
        ({"beside": 3}, "damaged: AttributeError"),
        ({"open": ...}, "damaged: KeyError('open')"),
    ],
)
def test_a_control_record_that_is_none_is_refused_with_its_place(changes: dict[str, Any], what: str) -> None:
    wrong = {name: value for name, value in {**TOLD.to_builtins(), **changes}.items() if value is not ...}
    with pytest.raises(UnsupportedFormatError) as caught:
        control.from_builtins(wrong, "s/0")
    assert what in caught.value.what
    assert caught.value.cure


S_M: dict[str, tuple[str, ...]] = {"s": ("l",), "m": ()}
S_T_M = {**S_M, "t": ("l",)}
L, M = Control("l", 50, beside={"l": (), "m": ()}), Control("m", 30, beside={"l": (), "m": ()})

HEARD: list[tuple[str, list[Control], dict[str, int | None], int | None]] = [
    ("nothing", [], {}, None),
    ("a lane alone", [Control("l", 50, beside={"l": ()})], {"l": 50}, 50),
    ("one of two", [L], {"l": 50, "m": None}, None),
    ("both", [L, M], {"l": 50, "m": 30}, 30),
    ("a lane that doesn't know yet", [L, Control("m", None, beside={"l": (), "m": ()})], {"l": 50, "m": None}, None),
    ("the same again", [L, M, M, L], {"l": 50, "m": 30}, 30),
    ("one goes on", [L, M, Control("m", 90, beside={"l": (), "m": ()})], {"l": 50, "m": 90}, 50),
    ("none goes back", [L, M, Control("m", 20), Control("l", None)], {"l": 50, "m": 30}, 30),
    ("a successor", [L, M, Control("s", 60, ("l",), S_M)], {"s": 60, "m": 30}, 30),
    ("which begins with its parent's", [L, M, Control("s", None, ("l",), S_M)], {"s": 50, "m": 30}, 30),
    ("and its twin, too", [L, M, Control("s", 60, ("l",), S_T_M)], {"s": 60, "t": 50, "m": 30}, 30),
    (
        "which then speaks",
        [L, M, Control("s", 60, ("l",), S_T_M), Control("t", 55, ("l",), S_T_M)],
        {"s": 60, "t": 55, "m": 30},
        30,
    ),
    ("a merge", [L, M, Control("s", None, ("l", "m"), {"s": ("l", "m")})], {"s": 30}, 30),
    ("a lane beside doesn't bring back", [L, M, Control("s", 60, ("l",), S_M), M], {"s": 60, "m": 30}, 30),
    ("nor does a lane that is gone", [L, M, Control("s", 60, ("l",), S_M), L], {"s": 60, "m": 30}, 30),
    (
        "a twin replaced before it spoke",
        [
            L,
            Control("s", 60, ("l",), {"s": ("l",), "t": ("l",)}),
            Control("u", 70, ("t",), {"s": ("l",), "u": ("t",)}),
            Control("m", 90),
        ],
        {"s": 60, "u": 70, "m": 90},
        60,
    ),
    (
        "each of two goes on from its own",
        [L, M, Control("s", 60, ("l",), {"s": ("l",), "t": ("m",)})],
        {"s": 60, "m": 30, "t": 30},
        30,
    ),
    ("who goes on from one never heard of", [Control("s", 60, ("l",), {"s": ("l",)})], {"s": 60}, 60),
]


@pytest.mark.parametrize(("told", "heard", "watermark"), [each[1:] for each in HEARD], ids=[each[0] for each in HEARD])
def test_what_an_ssp_has_told(told: list[Control], heard: dict[str, int | None], watermark: int | None) -> None:
    upstream = Upstream().after(told, cursor=9)
    assert (upstream.heard, upstream.watermark, upstream.cursor) == (heard, watermark, 9)
    assert upstream.gone == {lane for each in told for lane in each.predecessors}
    one_by_one = Upstream()
    for each in told:
        one_by_one = one_by_one.after([each], cursor=9)
    assert one_by_one == (upstream if told else Upstream())


def test_hearing_more_changes_nothing_that_was_heard() -> None:
    before = Upstream(4, {"l": 5}, frozenset({"k"}))
    before.after([Control("s", 9, ("l",), {"s": ("l",)})], 7)
    assert before == Upstream(4, {"l": 5}, frozenset({"k"}))


A, B, C = "embedded/a/0", "embedded/a/1", "embedded/i/0"
UPSTREAM = Upstream(3, {"l": 40, "m": 60})

AFTER: list[tuple[str, Progress, dict[str, int | None], dict[str, int], dict[str, Upstream], int | None]] = [
    ("nothing is read", Progress(), {}, {}, {}, None),
    ("nothing has come", Progress(), {A: 10}, {}, {}, None),
    ("the delay is taken off", Progress(), {A: 10}, {A: 100}, {}, 90),
    ("one of two has come", Progress(), {A: 10, B: 10}, {A: 100}, {}, None),
    ("the slowest counts", Progress(maxima={A: 100}), {A: 10, B: 10}, {B: 50}, {}, 40),
    ("each with its own delay", Progress(maxima={A: 100, B: 80}), {A: 70, B: 10}, {}, {}, 30),
    ("an earlier maximum stays", Progress(maxima={A: 100}), {A: 10}, {A: 60}, {}, 90),
    ("never backwards", Progress(95, {A: 100}), {A: 10}, {A: 101}, {}, 95),
    ("nor for one that is new", Progress(90, {A: 100}), {A: 10, B: 10}, {}, {}, 90),
    ("what was another's doesn't count", Progress(maxima={A: 5, B: 100}), {B: 10}, {}, {}, 90),
    ("a stream between", Progress(), {C: None}, {}, {C: UPSTREAM}, 40),
    ("that was heard before", Progress(upstream={C: UPSTREAM}), {C: None}, {}, {}, 40),
    ("that was heard again", Progress(upstream={C: UPSTREAM}), {C: None}, {}, {C: Upstream(5, {"l": 50})}, 50),
    ("that isn't known", Progress(), {A: 10, C: None}, {A: 100}, {}, None),
    ("one of whose lanes isn't", Progress(), {C: None}, {}, {C: Upstream(3, {"l": 40, "m": None})}, None),
    ("between and not", Progress(), {A: 10, C: None}, {A: 30}, {C: UPSTREAM}, 20),
]


@pytest.mark.parametrize(
    ("before", "delays", "maxima", "upstream", "expected"),
    [each[1:] for each in AFTER],
    ids=[each[0] for each in AFTER],
)
def test_the_watermark_after_a_batch(
    before: Progress,
    delays: dict[str, int | None],
    maxima: dict[str, int],
    upstream: dict[str, Upstream],
    expected: int | None,
) -> None:
    now = progress.after(before, delays, maxima, upstream)
    assert now.watermark == expected
    assert now.maxima == {**before.maxima, **{s: max(at, before.maxima.get(s, at)) for s, at in maxima.items()}}
    assert now.upstream == {**before.upstream, **upstream}
    assert progress.after(now, delays, maxima, upstream) == now


@pytest.mark.parametrize(
    ("now", "delays", "expected"),
    [
        (Progress(), {}, None),
        (Progress(maxima={A: 100, B: 50}), {A: 10, B: 10}, B),
        (Progress(maxima={A: 100, B: 50}), {A: 70, B: 10}, A),
        (Progress(maxima={A: 100}), {A: 10, B: 10}, B),
        (Progress(), {B: 10, A: 10, C: None}, A),
        (Progress(maxima={A: 100}, upstream={C: UPSTREAM}), {A: 10, C: None}, C),
        (Progress(maxima={A: 20}, upstream={C: UPSTREAM}), {A: 10, C: None}, A),
        (Progress(maxima={A: 50}, upstream={C: UPSTREAM}), {C: None, A: 10}, A),
        (Progress(maxima={A: -100, B: -50}), {A: 10, B: 10}, A),
        (Progress(maxima={A: 10, B: -50}), {A: 10, B: 10}, B),
    ],
)
def test_who_holds_the_watermark_back(now: Progress, delays: dict[str, int | None], expected: str | None) -> None:
    assert progress.held_by(now, delays) == expected
    assert Clock(now, delays, {}).held_by == expected


TIMES = st.integers(-(10**6), 10**15)
UPSTREAMS = st.builds(
    Upstream,
    st.integers(-1, 10**6),
    st.dictionaries(st.sampled_from("lmns"), st.none() | TIMES),
    st.frozensets(st.sampled_from("ghij")),
)
PROGRESSES = st.builds(
    Progress,
    st.none() | TIMES,
    st.dictionaries(st.sampled_from([A, B]), TIMES),
    st.dictionaries(st.sampled_from([C, "embedded/i/1"]), UPSTREAMS),
)


@given(PROGRESSES)
def test_progress_is_read_as_it_was_written(now: Progress) -> None:
    written = now.to_builtins()
    assert progress.from_builtins(json.loads(json.dumps(written))) == now
    assert written["source"] == "event-time"
    assert "stream" not in written, "it would be taken for the offset of a stream"


@given(PROGRESSES)
def test_equal_progress_is_written_the_same(now: Progress) -> None:
    """Spark compares offsets as text: another order would be another batch."""
    upstream = {s: Upstream(e.cursor, dict(reversed(e.heard.items())), e.gone) for s, e in now.upstream.items()}
    turned = Progress(now.watermark, dict(reversed(now.maxima.items())), dict(reversed(upstream.items())))
    assert json.dumps(turned.to_builtins()) == json.dumps(now.to_builtins())


def test_a_clock_is_read_as_it_was_set(tmp_path: Path) -> None:
    file = tmp_path / "lane.clock"
    assert clock.read(file) is None
    for watermark in (5, 6):
        held = Clock(Progress(watermark, {A: 15}, {C: UPSTREAM}), {A: 10, C: None}, {A: 3, C: 4})
        held.write(file)
        assert clock.read(file) == held
    assert list(tmp_path.iterdir()) == [file]


def test_the_clock_of_a_lane_that_hears_nobody_has_little_to_import(tmp_path: Path) -> None:
    """It is a process of its own, and the lane's first batch waits for it."""
    Clock(Progress(5, {A: 15}), {A: 10}, {A: 3}).write(tmp_path / "lane.clock")
    options = {"file": f"{tmp_path}/lane.clock", "systems": clock.carried(Systems(Settings())), "rows": ""}
    code = (
        "import sys\n"
        "from anabranch.spark.query.clock import EventTimeSource\n"
        f"print(EventTimeSource({options}).streamReader(None).latestOffset({{}}, None)['watermark'])\n"
        "print('pydantic' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "5\nFalse\n"


def test_a_lane_hears_what_stands_before_the_records_it_has_still_to_read() -> None:
    log, ssp = MemoryLog(), ssp_of("i", 0)
    rows = [Row(ssp, n, n, 0) for n in range(4)]
    log.add(ssp, rows[:2], Control("l", 50, beside={"l": ()}).to_builtins())
    log.add(ssp, rows[2:], Control("l", 60, beside={"l": ()}).to_builtins())
    log.add(ssp, [], Control("l", 70, beside={"l": ()}).to_builtins())
    heard = [
        Clock(Progress(), {str(ssp): None, A: 10}, {str(ssp): at, A: 9}).heard(log.named, 0).upstream[str(ssp)]
        for at in range(5)
    ]
    assert [(each.watermark, each.cursor) for each in heard] == [(50, 0), (50, 0), (60, 1), (60, 1), (70, 2)]


def test_a_lane_that_hears_nothing_new_has_no_new_offset() -> None:
    """Its readers tell it the same with each of their batches: if that counted, it would have a batch for each."""
    log, ssp = MemoryLog(), ssp_of("i", 0)
    told = Control("l", 50, beside={"l": ()}).to_builtins()
    log.add(ssp, [], told)
    now = Clock(Progress(), {str(ssp): None}, {str(ssp): 0}).heard(log.named, 0)
    assert now.watermark == 50
    log.add(ssp, [], told)
    assert Clock(now, {str(ssp): None}, {str(ssp): 0}).heard(log.named, 0) is now
    log.add(ssp, [], Control("l", 51, beside={"l": ()}).to_builtins())
    later = Clock(now, {str(ssp): None}, {str(ssp): 0}).heard(log.named, 0)
    assert (later.watermark, later.upstream[str(ssp)].cursor) == (51, 2)


@pytest.mark.parametrize(
    ("begins", "ends", "starting", "expected"),
    [
        ({"a": {0: 3, 1: 4}}, {"a": {0: 5, 1: 4}}, {}, {0: (3, 5), 1: (4, 4)}),
        ({}, {"a": {0: 5, 1: 6}}, {1: 2}, {0: (0, 5), 1: (2, 6)}),
        ({"a": {0: 3}}, {"a": {0: 5, 1: 6}}, {0: 1, 1: 2}, {0: (3, 5), 1: (2, 6)}),
        ({"b": {0: 3}}, {"b": {0: 5}}, {0: 1}, {}),
    ],
)
def test_what_a_batch_reads(
    begins: dict[str, dict[int, int]],
    ends: dict[str, dict[int, int]],
    starting: dict[int, int],
    expected: dict[int, tuple[int, int]],
) -> None:
    assert Batch(1, begins, ends, Progress()).ranges("a", starting) == expected


COUNTS = [(1, 1), (2, 1), (3, 1), (2, 2), (3, 2), (4, 2), (2, 3), (3, 3), (2, 2, 2), (3, 3, 1)]
LANES = [(0, 0, 0, 0), (0, 1, 2, 0), (0, 1, 0, 1), (0, 0, 1, 1), (0, 1, 1, 2), (0, 1, 1, 1)]
ROWS = st.lists(
    st.tuples(st.sampled_from([0, 1, 5, 20]), st.integers(0, DELAY), st.integers(0, 3)), min_size=4, max_size=9
)
NUMBERS = st.integers(0, 2)
FEW = st.sampled_from([(0, 0, 0), (1, 1, 1), (3, 3, 3), (1, 0, 2), (0, 2, 1), (2, 1, 0), (0, 4, 0), (4, 0, 1)])
TAKES = [st.builds(Take, NUMBERS, NUMBERS, FEW, st.sampled_from([*[None] * 10, *DEATHS])) for _ in range(10)]  # often
SPLITS, MERGES = st.builds(Split, NUMBERS, NUMBERS), st.builds(Merge, NUMBERS)
EXPANSIONS = st.builds(Expand, NUMBERS, st.just(((5, 0, 0), (20, 9, 1), (20, 10, 2), (20, 0, 3))))
RECUTS = st.builds(Recut, NUMBERS, st.sampled_from(LANES))
HISTORIES = st.lists(st.one_of(*TAKES, SPLITS, MERGES, RECUTS, EXPANSIONS), min_size=20, max_size=60)


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    counts = draw(st.sampled_from(COUNTS))
    own = draw(st.integers(0, counts[-1]))
    rows = [tuple(draw(ROWS)) for _ in range(counts[0] + own)]
    if draw(st.integers(0, 9)) == 9:
        rows[-1] = ()
    return Shape(counts, own, tuple(draw(st.sampled_from(LANES))[:count] for count in counts), tuple(rows))


def ran(shape: Shape, history: Sequence[Action]) -> Site:
    site = Site(shape)
    for action in history:
        site.act(action)
    site.settle()
    return site


def computed(shape: Shape) -> dict[Window, Counter[Row]]:
    """The windows by their definition."""
    destinies = shape.destinies()
    found: dict[Window, Counter[Row]] = defaultdict(Counter)
    for task in range(shape.counts[-1]):
        for ssp in shape.ssps(shape.last, [task]):
            for row in destinies[ssp]:
                found[task, WINDOW.start_of(row.at)][row] += 1
    return dict(found)


def counted(windows: Mapping[Window, Sequence[Row]]) -> dict[Window, Counter[Row]]:
    return {window: Counter(rows) for window, rows in windows.items()}


@settings(deadline=None, max_examples=100)
@given(shapes(), HISTORIES)
def test_a_watermark_never_goes_backwards(shape: Shape, history: list[Action]) -> None:
    before: dict[str, float] = {}
    for told in ran(shape, history).told:
        now = NEVER if told.watermark is None else told.watermark
        assert before.get(told.lane.id, now) <= now, told
        before[told.lane.id] = now


@settings(deadline=None, max_examples=150)
@given(shapes(), HISTORIES)
def test_a_watermark_never_overtakes_a_row(shape: Shape, history: list[Action]) -> None:
    for told in ran(shape, history).told:
        if told.watermark is not None:
            assert min(told.unread, default=told.watermark) >= told.watermark, told


@settings(deadline=None, max_examples=150)
@given(shapes(), HISTORIES)
def test_windows_hold_the_same_rows_whatever_the_lanes_have_gone_through(shape: Shape, history: list[Action]) -> None:
    site = ran(shape, history)
    expected = computed(site.shape)
    closed = counted(site.closed())
    assert closed == {window: expected.get(window) for window in closed}
    assert counted(site.drained()) == expected


@settings(deadline=None, max_examples=150)
@given(shapes(), HISTORIES)
def test_the_watermark_gets_as_far_as_the_slowest_source(shape: Shape, history: list[Action]) -> None:
    site = ran(shape, history)
    latest = {source: max((row.at for row in site.shape.of(source)), default=None) for source in site.shape.sources()}
    for lane in site.lanes[-1]:
        mine = [at for source, at in latest.items() if source.stream == "s0" or source in lane.ssps]
        known = [at - DELAY for at in mine if at is not None]
        assert lane.watermark == (min(known) if len(known) == len(mine) else None)


def test_a_lane_that_is_replaced_with_others_and_has_not_spoken_holds_the_watermark() -> None:
    rows = (((110, 0, 0), (10, 0, 0)), ((50, 0, 0), (5, 0, 0)))
    site = Site(Shape((2, 1), 0, ((0, 1), (0,)), rows))
    for rows_of_each in (1, 0):
        for lane in (0, 1):
            site.act(Take(0, lane, (rows_of_each,)))
    site.act(Take(1, 0, (2,)))
    site.act(Take(1, 0, (0,)))
    assert site.lanes[1][0].watermark == 50 - DELAY
    site.act(Recut(0, (0, 1)))
    for lane in (0, 1):
        site.act(Take(0, lane, (1,)))
    site.act(Take(1, 0, (1,)))
    site.act(Take(1, 0, (0,)))
    last = site.told[-1]
    assert (last.unread, last.watermark) == ([55], 50 - DELAY)
