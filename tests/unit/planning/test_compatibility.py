"""Which versions of a job can follow which: a table of changes, and what holds for all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch import Job, tumbling
from anabranch.errors import ConflictError, UsageError
from anabranch.planning import compatibility
from anabranch.planning.compatibility import Comparison, Version
from tests.unit.planning.factory import version

SCHEMA = "dest string, delay int, at timestamp"


def job(
    schema: str = SCHEMA,
    key: str = "tail string",
    by: str = "dest",
    name: str | None = "per-dest",
    tails: str | None = "tails",
    size: str = "1 hour",
    watermark: str = "10 minutes",
    late: str = "delay > 15",
    partitions: int | None = None,
    renamed: str | None = None,
    **aggregates: str,
) -> Job:
    made = Job("delays")
    flights = made.read("flights", key=key, schema=schema, event_time="at", watermark=watermark)
    flights.where(late).write("late")
    if tails is not None:
        flights.agg(n="count(*)", name=tails or None).write("tails")
    keyed = flights.partition_by(by, partitions=partitions, name=renamed)
    keyed.window(tumbling(size)).agg(name=name, **(aggregates or {"n": "count(*)"})).write("dests")
    return made


def compared(after: Version, before: Version | None = None, **args: Any) -> Comparison:
    given = {"factor": 1, "containers": 1, **args}
    return compatibility.compared(version(job()) if before is None else before, after, **given)


def more(change: Callable[[Job], object]) -> Job:
    made = job()
    change(made)
    return made


COMPATIBLE = {
    "the same": job(),
    "another condition": job(late="delay > 30"),
    "an output more": more(lambda j: j.read("flights", name="again").write("all")),
    "an input more": more(lambda j: j.read("weather", name="w").write("storms")),
    "a stage more": more(lambda j: j.read("weather", key="a string", schema="b int").partition_by("b").write("x")),
    "state more": more(lambda j: j.read("weather", key="a string", schema="b int").agg(n="count(*)").write("x")),
}
REFUSED = {
    "the aggregate": (job(n="sum(delay)"), "differs in its aggregates"),
    "the window": (job(size="2 hours"), "differs in its window"),
    "the watermark": (job(watermark="1 hour"), "a watermark of 3600000 ms"),
    "the stage key": (job(key="tail long"), "the stage key of agg 'tails'"),
    "another key column": (job(key="plane string"), "the stage key of agg 'tails'"),
    "the column of partition_by": (job(by="delay", renamed="by-dest"), "is by delay, and was by dest"),
    "the partitions between": (job(partitions=8), "has partitions=8, and had None"),
    "the format between": (
        job(schema=SCHEMA.replace("delay int", "delay double")),
        "has other columns: delay int → do",
    ),
    "a column more between": (job(schema=f"{SCHEMA}, gate string"), "has other columns: gate none → string"),
    "a stage less": (job(by="at"), "partition_by 'by-dest' is gone"),
    "a renamed stage": (job(renamed="towns"), "was called 'by-dest', and the content of its stream belongs to"),
    "a renamed operator": (job(name="per-town"), "was called 'per-dest', and its state belongs to"),
    "a derived name": (job(tails=""), "was called 'tails', and its state belongs to"),
    "state less": (job(tails=None), "agg 'tails' keeps state, and the new version doesn't have it"),
}
SETTINGS_REFUSED = {
    "grouper": ("ssp", "the grouper changes from partition to ssp"),
    "factor": ("4", "its settings say factor 4, but the job has factor 1"),
    "containers": ("2", "its settings say containers 2"),
    "state_partitions": ("8", "state_partitions changes from 4 to 8"),
    "watermark_scope": ("job", "watermark_scope changes"),
    "trigger": ("real-time", "trigger changes from micro-batch to real-time"),
    "output stream late": ("another", "output stream late changes"),
    "delivery of late": ("at-least-once", "delivery of late changes"),
    "format of flights": ("avro", "format of flights changes"),
}


@pytest.mark.parametrize("name", COMPATIBLE)
def test_what_can_follow(name: str) -> None:
    assert compared(version(COMPATIBLE[name])).reasons == ()


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_follow(name: str) -> None:
    made, told = REFUSED[name]
    reasons = compared(version(made)).reasons
    assert any(told in each.what for each in reasons), reasons


def test_aggregates_in_another_order_cannot_follow() -> None:
    before, after = (version(job(**dict(pairs))) for pairs in ([("a", "min(delay)"), ("b", "max(delay)")],) * 2)
    assert compared(after, before).reasons == ()
    swapped = version(job(b="max(delay)", a="min(delay)"))
    (reason,) = compared(swapped, before).reasons
    assert reason.what.endswith("has changed: the operator differs in its aggregates")


def test_another_limit_per_key_cannot_follow() -> None:
    before, same, after = (version(limited(n)) for n in (3, 3, 5))
    assert compared(same, before).reasons == ()
    (reason,) = compared(after, before).reasons
    assert reason.what.startswith("the state of process 'first' (test_compatibility.py:")
    assert reason.what.endswith("has changed: the operator differs in its limit_per_key")


@pytest.mark.parametrize(("was", "now"), [(False, True), (True, False)])
@pytest.mark.parametrize("stateful", [False, True])
def test_an_input_stays_a_broadcast_or_stays_none(was: bool, now: bool, stateful: bool) -> None:
    before, after = (version(ruled(broadcast, stateful)) for broadcast in (was, now))
    how = {False: "by partition", True: "as a broadcast"}
    told = f"stream 'rules' is read {how[now]}, and was read {how[was]}"
    reasons = compared(after, before).reasons
    assert [(reason.what, reason.cure) for reason in reasons if reason.what == told] == [(told, compatibility.DRAIN)]
    assert compared(before, before).reasons == ()


def ruled(broadcast: bool, stateful: bool = False) -> Job:
    made = Job("j")
    rows = made.read("in", key="k string", schema="n int")
    rows = rows.merge(made.read("rules", key="k string", schema="n int", broadcast=broadcast))
    rows.where("n > 0").write("out")
    if stateful:
        rows.agg(n="count(*)", name="counted").write("counts")
    return made


def limited(n: int) -> Job:
    made = Job("j")
    made.read("weather", key="place string", schema="wind int").limit_per_key(n, name="first").write("first-storms")
    return made


def tallied(n: str = "sum(delay)", key: str = "tail string", schema: str = "delay int, gate string") -> Job:
    made = Job("j")
    made.read("flights", key=key, schema=schema).agg(n=n, name="tails").write("tails")
    return made


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (tallied(), tallied(), ""),
        (tallied(), tallied(schema="delay int"), ""),
        (tallied(), tallied(n="max(delay)"), "differs in its aggregates"),
        (tallied(), tallied(key="tail long"), "the stage key of agg 'tails'"),
        (tallied(), tallied(schema="delay double, gate string"), "delay int → double"),
        (limited(3), limited(5), ""),
        (ruled(False, True), ruled(True, True), ""),  # the lanes' inputs are compared when they are planned
    ],
)
def test_what_can_keep_the_state_that_a_drain_left(before: Job, after: Job, told: str) -> None:
    (name,) = (node.name for node in after.graph.nodes if node.kind in ("agg", "process"))
    reasons = compatibility.unkept(version(before), version(after), [name])
    assert len(reasons) == bool(told)
    assert told in "".join(reasons)
    for reason in compared(version(after), version(before)).reasons if told else ():
        assert reason.cure == f"write another name= there, so that it begins without state, and add --drop-state {name}"


@pytest.mark.parametrize("name", SETTINGS_REFUSED)
def test_settings_that_cannot_change(name: str) -> None:
    value, told = SETTINGS_REFUSED[name]
    (reason,) = compared(version(job(), **{name: value})).reasons
    assert told in reason.what


def test_what_a_job_was_scaled_to_may_stand_in_its_settings() -> None:
    assert not compared(version(job(), factor="4"), factor=4).reasons
    assert not compared(version(job()), factor=4).reasons
    assert compared(version(job(), factor="2"), factor=4).reasons


def test_a_stream_in_another_system() -> None:
    after = version(job())
    told = {k: v for k, v in after.fingerprint.items() if k != "partitions of embedded/flights"}
    (reason,) = compared(replace(after, fingerprint={**told, "partitions of kafka/flights": "4"})).reasons
    assert reason.what == "stream 'flights' is read from kafka, and was read from embedded"


def test_another_layout_of_intermediate_streams() -> None:
    before = version(job())
    told = {k: v for k, v in before.fingerprint.items() if k != "output stream delays-by-dest-1"}
    reasons = compared(version(job()), replace(before, fingerprint={**told, "output stream delays-by-dest-0": "x"}))
    assert any("the layout of intermediate streams" in each.what for each in reasons.reasons)


def test_a_state_that_may_go() -> None:
    found = compared(version(job(tails=None)), drop_state=["tails"])
    assert (found.reasons, found.dropped) == ((), ("tails",))
    assert "the state of tails is dropped" in found.notes
    assert "tails is no longer written" in found.notes


@pytest.mark.parametrize("name", ["tails", "nobody"])
def test_only_what_goes_can_be_dropped(name: str) -> None:
    with pytest.raises(UsageError, match="can't be dropped"):
        compared(version(job()), drop_state=[name])


def test_a_refusal_has_all_reasons_and_each_cure_once() -> None:
    found = compared(version(job(size="2 hours", tails=""), grouper="ssp"))
    with pytest.raises(ConflictError) as refused:
        compatibility.check(found, "delays")
    assert len(found.reasons) == 3
    assert all(reason.what in refused.value.what for reason in found.reasons)
    assert refused.value.cure.count("--drain") == 1
    assert "write name='tails' there" in refused.value.cure


JOBS = st.builds(
    job,
    schema=st.sampled_from([SCHEMA, SCHEMA.replace("int", "long")]),
    key=st.sampled_from(["tail string", "tail long"]),
    by=st.sampled_from(["dest", "delay"]),
    name=st.sampled_from(["per-dest", None]),
    tails=st.sampled_from(["tails", "", None]),
    size=st.sampled_from(["1 hour", "2 hours"]),
    late=st.sampled_from(["delay > 15", "delay > 30"]),
    n=st.sampled_from(["count(*)", "max(delay)"]),
)


@given(JOBS, JOBS)
def test_whatever_can_follow_can_be_rolled_back(one: Job, other: Job) -> None:
    """But for state that comes, or goes."""
    first, second = version(one), version(other)
    there, back = compared(second, first), compared(first, second)
    had, has = ({n.name for n in v.graph.nodes if n.kind == "agg"} for v in (first, second))
    if had == has:
        assert bool(there.reasons) is bool(back.reasons)
    gone = [*had - has]
    may_go = compared(second, first, drop_state=gone)
    assert set(may_go.dropped) == set(gone)


@given(JOBS)
def test_each_version_can_follow_itself(made: Job) -> None:
    assert compared(version(made), version(made)) == Comparison()
