"""Watermarks and windows of lanes through everything that happens to them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.cases import examples
from tests.unit.event_time.memory_log import DELAY, WINDOW, Row, Window
from tests.unit.event_time.running import DEATHS, Site
from tests.unit.event_time.shapes import Action, Expand, Merge, Recut, Shape, Split, Take

NEVER = -float("inf")

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


@examples(100)
@given(shapes(), HISTORIES)
def test_a_watermark_never_goes_backwards(shape: Shape, history: list[Action]) -> None:
    before: dict[str, float] = {}
    for told in ran(shape, history).told:
        now = NEVER if told.watermark is None else told.watermark
        assert before.get(told.lane.id, now) <= now, told
        before[told.lane.id] = now


@examples(150)
@given(shapes(), HISTORIES)
def test_a_watermark_never_overtakes_a_row(shape: Shape, history: list[Action]) -> None:
    for told in ran(shape, history).told:
        if told.watermark is not None:
            assert min(told.unread, default=told.watermark) >= told.watermark, told


@examples(150)
@given(shapes(), HISTORIES)
def test_windows_hold_the_same_rows_whatever_the_lanes_have_gone_through(shape: Shape, history: list[Action]) -> None:
    site = ran(shape, history)
    expected = computed(site.shape)
    closed = counted(site.closed())
    assert closed == {window: expected.get(window) for window in closed}
    assert counted(site.drained()) == expected


@pytest.mark.long
@examples(150)
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


def test_many_changes_of_the_lanes_leave_little_behind() -> None:
    """What a reader stores with each batch of the lanes that it reads doesn't grow with the history of the job."""
    rows = tuple((10 * number, 0, 0) for number in range(200))
    site = Site(Shape((2, 1), 0, ((0, 1), (0,)), (rows, rows)))
    gone = []
    for number in range(30):
        site.act(Recut(0, (0, number % 2)))
        for lane in (0, 1):
            site.act(Take(0, lane, (1,)))
        for _ in range(2):
            site.act(Take(1, 0, (3,)))
        last = site.lanes[1][0].last
        assert last is not None
        gone.append(sum(len(each.gone) for each in last.progress.upstream.values()))
    assert max(gone) == max(gone[:4]) <= 4
