"""The outputs of a plan: who writes intermediate streams, dead letters and late rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count

import pytest

from anabranch import Job, Stream, tumbling
from anabranch.planning import plan as planning
from tests.unit.planning.delays import EXACT, delays, make
from tests.unit.planning.factory import around


def test_lanes_that_write_an_intermediate_stream_know_each_other() -> None:
    plan = make(delays(), around(containers=2, flights=4))
    numbers = count()
    lanes = planning.lanes_of(plan, 8, lambda: f"{next(numbers):08x}")
    writers = [lane.id for lane in lanes if "delays-by-dest-1" in lane.outputs]
    assert len(writers) == 2
    assert [lane.beside for lane in lanes if lane.id in writers] == [dict.fromkeys(writers, ())] * 2


def test_one_lane_of_a_container_reports_a_source_s_faults_to_its_dead_letters() -> None:
    plan = make(delays(), around(containers=2, flights=4))
    numbers = count()
    lanes = planning.lanes_of(plan, 8, lambda: f"{next(numbers):08x}")
    assert [(lane.group, lane.seat, lane.reports) for lane in lanes if lane.stage == "0"] == [
        ("outputs-embedded", "0", ("flights",)),
        ("outputs-embedded", "1", ("flights",)),
        ("per-tail", "0", ()),
        ("per-tail", "1", ()),
    ]
    assert {tuple(lane.dead_letters.items()) for lane in lanes if lane.stage == "0"} == {
        (("flights", "flights-dead-letters"),)
    }


def test_intermediate_streams_have_dead_letters_where_a_function_reads_them() -> None:
    job = Job("j")
    rows = job.read("a", key="k string", schema="x int")
    rows.partition_by("x", name="plain").write("one")
    rows.partition_by("x", name="mapped").filter(bool).write("two")
    plan = make(job, around(a=3, a_dead_letters=5))
    assert {o.operator: (o.stream, o.partitions, o.promise) for o in plan.outputs if o.dead_letters} == {
        "a": ("a-dead-letters", 5, EXACT),
        "mapped": ("j-mapped-1-dead-letters", 3, EXACT),
    }
    assert [lane.dead_letters for lane in plan.lanes if lane.stage != "0"] == [
        {},
        {"j-mapped-1": "j-mapped-1-dead-letters"},
    ]


def by_x(build: Callable[[Stream], Stream]) -> Job:
    """A job whose second stage reads an intermediate stream, and calls no function."""
    job = Job("j")
    build(job.read("a", key="k string", schema="x int").partition_by("x", name="by-x")).write("out")
    return job


NULL_KEYS: list[Callable[[Stream], Stream]] = [
    lambda rows: rows.partition_by("k", name="again"),
    lambda rows: rows.partition_by("k", via="spark"),
    lambda rows: rows.agg(n="count(*)", name="counted").partition_by("n", name="again"),
    lambda rows: rows.transform(lambda frame: frame).agg(n="count(*)"),
]


@pytest.mark.parametrize("build", NULL_KEYS)
def test_intermediate_streams_have_dead_letters_where_a_key_may_be_null(build: Callable[[Stream], Stream]) -> None:
    plan = make(by_x(build), around(a=3))
    assert [o.stream for o in plan.outputs if o.dead_letters] == ["a-dead-letters", "j-by-x-1-dead-letters"]
    (lane,) = (lane for lane in plan.lanes if lane.stage == "1")
    assert lane.dead_letters == {"j-by-x-1": "j-by-x-1-dead-letters"}
    assert any(name.endswith(":embedded/j-by-x-1/0") for name in planning.slots_of(lane, 2))


@pytest.mark.parametrize("build", [lambda rows: rows.where("x > 1"), lambda rows: rows.agg(n="count(*)")])
def test_intermediate_streams_have_no_dead_letters_where_no_row_can_be_refused(
    build: Callable[[Stream], Stream],
) -> None:
    plan = make(by_x(build), around(a=3))
    assert [o.stream for o in plan.outputs if o.dead_letters] == ["a-dead-letters"]


@pytest.mark.parametrize("build", NULL_KEYS)
@pytest.mark.parametrize("there", [False, True])
def test_a_job_that_continues_has_only_the_dead_letters_that_it_was_planned_with(
    build: Callable[[Stream], Stream], there: bool
) -> None:
    """Older versions of anabranch planned no dead letters for null keys between stages."""
    known = around(a=3, **{"j-by-x-1-dead-letters": 3}) if there else around(a=3)
    plan = make(by_x(build), replace(known, continues=True))
    wanted = ["a-dead-letters", "j-by-x-1-dead-letters"] if there else ["a-dead-letters"]
    assert [o.stream for o in plan.outputs if o.dead_letters] == wanted


def test_late_rows_have_a_place_to_be_put_aside_and_slots_of_their_own() -> None:
    job = Job("j")
    rows = job.read("a", key="k string", schema="x int, at timestamp", event_time="at", watermark="1 hour")
    behind = rows.partition_by("x", name="by-x")
    behind.window(tumbling("1 hour"), on_late="dead-letter").agg(n="count(*)", name="kept").write("one")
    behind.window(tumbling("1 hour"), on_late="fail").agg(n="count(*)", name="strict").write("two")
    plan = make(job, around(a=1))
    lanes = {lane.group: lane for lane in plan.lanes if lane.stage == "1"}
    assert lanes["kept"].dead_letters == {"j-by-x-1": "j-by-x-1-dead-letters"}
    assert lanes["kept"].rejecting == ("by-x", "kept", "kept-late")
    assert planning.slots_of(lanes["kept"], 2)[-3:] == (
        "kept-late:embedded/j-by-x-1/0",
        "kept-late:state-0",
        "kept-late:state-1",
    )
    assert lanes["strict"].rejecting == ("strict",)
