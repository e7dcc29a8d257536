"""Control records: how they are written, and what a lane has heard by them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from anabranch.errors import UnsupportedFormatError
from anabranch.event_time import control
from anabranch.event_time.control import Control
from anabranch.event_time.progress import Progress, Upstream
from anabranch.spark.query.clock import Clock
from anabranch.spark.query.planned_batch import Batch
from tests.unit.event_time.memory_log import MemoryLog, Row, ssp_of
from tests.unit.event_time.ssps import A

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
    assert upstream.gone.keys() == {lane for each in told for lane in each.predecessors}
    one_by_one = Upstream()
    for each in told:
        one_by_one = one_by_one.after([each], cursor=9)
    assert one_by_one == (upstream if told else Upstream())


def test_hearing_more_changes_nothing_that_was_heard() -> None:
    before = Upstream(4, {"l": 5}, {"k": frozenset()})
    before.after([Control("s", 9, ("l",), {"s": ("l",)})], 7)
    assert before == Upstream(4, {"l": 5}, {"k": frozenset()})


def test_a_lane_that_is_gone_is_forgotten_once_nobody_can_name_it() -> None:
    """Otherwise, each change of a job would add to what each reader stores with each batch."""
    s_m = {"s": ("l",), "m": ()}
    replaced = Upstream().after([L, M, Control("s", 60, ("l",), s_m)], 1)
    assert replaced.gone == {"l": frozenset()}, "its successor and its co-writer still name it"
    t_m = {"t": ("s",), "m": ()}
    again = replaced.after([Control("t", 70, ("s",), t_m), Control("m", 80, beside={"l": (), "m": ()})], 2)
    assert again.gone == {"l": frozenset({"t"}), "s": frozenset({"m"})}, "m was made beside l, t in place of s"
    assert again.after([Control("l", 90, beside={"l": (), "m": ()})], 3).heard == {"t": 70, "m": 80}
    n = {"t": ("s",), "n": ("m",)}
    last = again.after([Control("n", 90, ("m",), n), Control("u", 95, ("t",), {"u": ("t",), "n": ("m",)})], 3)
    assert last.gone.keys() == {"m", "s", "t"} - {"s"}, "l and s are named by nobody"
    assert last.heard == {"n": 90, "u": 95}


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
