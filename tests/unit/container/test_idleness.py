"""SSPs from which nothing comes: which ones they are, and that they hold no watermark back, in a lane and behind it."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.config import JobSettings
from anabranch.container.idleness import Idleness
from anabranch.event_time import control, progress
from anabranch.event_time.control import Control
from anabranch.event_time.progress import Progress, Upstream
from anabranch.spark.query.clock import Clock
from anabranch.spark.query.planned_batch import Batch
from tests.unit.event_time.memory_log import MemoryLog, ssp_of
from tests.unit.event_time.running import Site
from tests.unit.event_time.shapes import Shape

A, B, I0, I1 = "embedded/a/0", "embedded/a/1", "embedded/i/0", "embedded/i/1"
DELAYS: dict[str, int | None] = {A: 10, B: 10}
BOTH = Progress(maxima={A: 100, B: 50})


def idle(before: Progress, *ssps: str) -> Progress:
    return replace(before, idle=frozenset(ssps))


@pytest.mark.parametrize(
    ("before", "maxima", "watermark", "held_by"),
    [
        (BOTH, {}, 40, B),
        (idle(BOTH, B), {}, 90, A),
        (idle(BOTH, A), {}, 40, B),
        (idle(BOTH, A, B), {}, 90, None),
        (idle(Progress(maxima={A: 100}), B), {}, 90, A),
        (idle(Progress(maxima={A: 100}), A), {}, None, B),
        (idle(Progress(maxima={A: 100}), A, B), {}, 90, None),
        (idle(Progress(), A, B), {}, None, None),
        (idle(BOTH, B), {B: 60}, 50, B),
        (idle(Progress(90, {A: 100, B: 50}), B), {B: 60}, 90, B),
        (idle(BOTH, B), {A: 120}, 110, A),
    ],
)
def test_the_watermark_is_the_least_of_those_that_are_not_idle_or_the_greatest_of_all(
    before: Progress, maxima: dict[str, int], watermark: int | None, held_by: str | None
) -> None:
    now = progress.after(before, DELAYS, maxima, {})
    assert (now.watermark, progress.held_by(now, DELAYS)) == (watermark, held_by)
    assert now.idle == before.idle - maxima.keys()


TIMES = st.integers(-(10**6), 10**6)
SSPS = [f"embedded/a/{n}" for n in range(4)]
IDLE = st.frozensets(st.sampled_from(SSPS))
PROGRESSES = st.builds(Progress, st.none() | TIMES, st.dictionaries(st.sampled_from(SSPS), TIMES), st.just({}), IDLE)
ALL: dict[str, int | None] = dict.fromkeys(SSPS, 10)


@given(PROGRESSES, st.dictionaries(st.sampled_from(SSPS), TIMES))
def test_never_backwards_and_an_ssp_rejoins_with_its_first_row(before: Progress, maxima: dict[str, int]) -> None:
    now = progress.after(before, ALL, maxima, {})
    if before.watermark is not None:
        assert now.watermark is not None
        assert now.watermark >= before.watermark
    assert not now.idle & maxima.keys()
    fresh = progress.after(replace(before, watermark=None), ALL, maxima, {})
    for ssp in maxima:
        assert fresh.watermark is None or fresh.watermark <= fresh.maxima[ssp] - 10


@given(PROGRESSES, IDLE)
def test_the_more_are_idle_the_later_it_is_and_never_later_than_all(before: Progress, more: frozenset[str]) -> None:
    first = progress.after(replace(before, watermark=None), ALL, {}, {})
    second = progress.after(replace(before, watermark=None, idle=before.idle | more), ALL, {}, {})
    if first.watermark is not None:
        assert second.watermark is not None
        assert second.watermark >= first.watermark
    if second.watermark is not None:
        assert second.watermark <= max(before.maxima.values()) - 10


@given(PROGRESSES)
def test_without_idle_ones_it_is_the_least_of_all(before: Progress) -> None:
    now = progress.after(replace(before, watermark=None, idle=frozenset()), ALL, {}, {})
    least = min(before.maxima.values()) - 10 if len(before.maxima) == len(SSPS) else None
    assert now.watermark == least


@given(st.lists(st.tuples(PROGRESSES, st.frozensets(st.sampled_from(SSPS), min_size=1)), min_size=1, max_size=3))
def test_of_lanes_that_are_joined_an_ssp_is_idle_if_it_was_in_all_that_read_it(
    several: list[tuple[Progress, frozenset[str]]],
) -> None:
    now = progress.joined(several)
    for ssp in SSPS:
        readers = [each for each, ssps in several if ssp in ssps]
        assert (ssp in now.idle) == (bool(readers) and all(ssp in each.idle for each in readers))


S = Control("s", 50, ("m",), {"l": (), "s": ("m",)})
L, M = Control("l", 100, beside={"l": (), "m": ()}), Control("m", 50, beside={"l": (), "m": ()})


@pytest.mark.parametrize(
    ("told", "watermark", "all_idle"),
    [
        ([L, M], 50, False),
        ([L, replace(M, idle=True)], 100, False),
        ([replace(L, idle=True), M], 50, False),
        ([replace(L, idle=True), replace(M, idle=True)], 100, True),
        ([L, replace(M, idle=True), M], 50, False),
        ([L, Control("m", None, beside=M.beside, idle=True)], 100, False),
        ([replace(L, idle=True)], None, False),
        ([L, replace(M, idle=True), S], 50, False),
        ([L, replace(M, idle=True), replace(S, idle=True)], 100, False),
        ([L, replace(M, idle=True), S, replace(M, idle=True)], 50, False),
    ],
)
def test_an_idle_lane_holds_nobody_back_who_reads_its_output(
    told: list[Control], watermark: int | None, all_idle: bool
) -> None:
    read = [control.from_builtins(json.loads(json.dumps(each.to_builtins())), "i/0") for each in told]
    upstream = Upstream().after(read, 3)
    assert (upstream.watermark, upstream.idle) == (watermark, all_idle)
    assert not upstream.resting & upstream.gone.keys(), "the offset log would grow"
    now = progress.after(Progress(), {I0: None}, {}, {I0: upstream})
    assert now.watermark == watermark
    assert progress.all_idle(now, {I0: None}) == all_idle
    assert progress.from_builtins(json.loads(json.dumps(now.to_builtins()))) == now


def test_a_stream_between_whose_lanes_are_idle_holds_nobody_back_either() -> None:
    quiet = Upstream(3, {"l": 40}, {}, frozenset({"l"}))
    delays: dict[str, int | None] = {A: 10, I0: None}
    now = progress.after(Progress(maxima={A: 100}), delays, {}, {I0: quiet})
    assert (now.watermark, progress.held_by(now, delays), progress.resting(now, delays)) == (90, A, [I0])


def test_what_an_older_version_wrote_has_nothing_idle() -> None:
    held = Progress(5, {A: 15}, {I0: Upstream(3, {"l": 40})}).to_builtins()
    del held["idle"], held["upstream"][I0]["resting"]
    assert progress.from_builtins(held) == Progress(5, {A: 15}, {I0: Upstream(3, {"l": 40})})
    told = M.to_builtins()
    del told["idle"]
    assert control.from_builtins(told, "i/0") == M


def heard(now: Clock, idle_at: Mapping[str, int]) -> Progress:
    return now.heard(MemoryLog().named, 0, idle_at)


def test_an_ssp_that_was_read_further_since_is_not_idle() -> None:
    """It was found so at one position: a batch may have read more of it before anybody looked again."""
    now = Clock(BOTH, DELAYS, {A: 7, B: 5})
    assert heard(now, {B: 5}).watermark == 90
    assert heard(now, {B: 5}).idle == {B}
    assert heard(now, {B: 4}).watermark == 40
    assert heard(now, {}).watermark == 40
    assert heard(now, {"embedded/other/0": 5}).idle == frozenset()
    again = Clock(heard(now, {B: 5}), DELAYS, {A: 7, B: 5})
    assert heard(again, {B: 5}) is again.progress, "it would have a batch for nothing"


def test_one_is_idle_that_was_at_its_end_for_a_while() -> None:
    looks = Idleness(60.0)
    assert looks.seen({A: 3, B: 5}, {A: 3, B: 9}, 100.0) == {}
    assert looks.seen({A: 3, B: 5}, {A: 3, B: 9}, 159.0) == {}
    assert looks.seen({A: 3, B: 5}, {A: 3, B: 9}, 160.0) == {A: 3}
    assert looks.seen({A: 3, B: 9}, {A: 3, B: 9}, 161.0) == {A: 3}
    assert looks.seen({A: 3, B: 9}, {A: 4, B: 9}, 220.0) == {}, "something came that isn't read yet"
    assert looks.seen({A: 4, B: 9}, {A: 4, B: 9}, 221.0) == {B: 9}
    assert looks.seen({A: 4, B: 9}, {A: 4}, 300.0) == {A: 4}, "nobody knows where the other ends"
    assert looks.seen({A: 4, B: 9}, {A: 4, B: 9}, 301.0) == {A: 4}


def test_one_that_was_idle_when_the_lane_ended_still_is_unless_something_came() -> None:
    looks = Idleness(60.0)
    assert looks.carry([A, B, I1], {A: 3, B: 5}, {A: 3, B: 6}) == {A: 3}
    assert looks.seen({A: 3, B: 5}, {A: 3, B: 6}, 10.0) == {A: 3}
    assert looks.seen({A: 4, B: 6}, {A: 4, B: 6}, 11.0) == {}


def test_it_can_be_switched_off() -> None:
    looks = Idleness(JobSettings(idle_after="never").idle_seconds)
    assert looks.seen({A: 3}, {A: 3}, 0.0) == looks.seen({A: 3}, {A: 3}, 10.0**9) == {}
    assert JobSettings().idle_seconds == 60
    for wrong in ("0 seconds", "soon"):
        with pytest.raises(ValueError, match="minute"):
            JobSettings(idle_after=wrong)
    assert math.isinf(JobSettings(idle_after="never").idle_seconds)


def test_a_lane_says_that_it_is_idle_but_not_with_a_batch_that_has_records() -> None:
    """One may be planned while the lane seems idle, and read a record that has come in that moment."""
    site = Site(Shape((1, 1), 0, ((0,), (0,)), (((100, 0, 0),),)))
    (lane,), source = site.lanes[0], ssp_of("s0", 0)
    positions: tuple[dict[str, dict[int, int]], ...] = ({}, {"s0": {0: 1}}, {"s0": {0: 1}})
    for number, (begins, ends) in enumerate(itertools.pairwise(positions)):
        lane.batches[number] = Batch(number, begins, ends, Progress(idle=frozenset({str(source)})))
        lane.run(lane.batches[number], None)
    told, _ = site.log.controls("s1", 0, -1, 1)
    assert [each["idle"] for each in told] == [False, True]
