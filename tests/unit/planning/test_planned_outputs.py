"""The outputs of a plan: who writes intermediate streams, dead letters and late rows."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest

from anabranch import Job, tumbling
from anabranch.errors import ConfigError
from anabranch.planning import plan as planning
from anabranch.planning.real_time import RealTime
from tests.unit.planning.delays import EXACT, ROUGH, delays, make
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


def test_an_intermediate_stream_is_written_exactly_once_except_in_real_time() -> None:
    job = Job("j")
    job.read("a", key="k string", schema="x int").partition_by("x", name="by-x").write("out")
    plain = replace(around(a=2), default_system="kafka", at_least_once={"out"})
    assert {o.stream: o.promise for o in make(job, plain).outputs if not o.dead_letters} == {
        "j-by-x-1": EXACT,
        "out": ROUGH,
    }
    both = replace(plain, at_least_once={"out", "j-by-x-1"})
    with pytest.raises(ConfigError) as caught:
        make(job, both)
    assert caught.value.what.startswith(
        "[streams.j-by-x-1] delivery is \"at-least-once\", but partition_by 'by-x' (test_planned_outputs.py:"
    )
    assert caught.value.cure == "remove delivery from [streams.j-by-x-1]"
    at_once = replace(both, real_time=RealTime("fail", "drop", "ssp", {"kafka"}))
    assert {output.promise for output in make(job, at_once).outputs} == {ROUGH}
