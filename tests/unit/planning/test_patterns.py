"""Inputs that are bound to patterns: which streams they have, and what becomes of a job when others come."""

from __future__ import annotations

import msgspec
import pytest
from pydantic import ValidationError

from anabranch import Job
from anabranch.config import Settings
from anabranch.errors import ConflictError, GraphError, NotFoundError
from anabranch.model.job_model import Matched
from anabranch.model.lane import Lane
from anabranch.operators.rules import is_boundary
from anabranch.planning import patterns, stages
from anabranch.planning import plan as planning
from anabranch.planning.plan import Plan
from anabranch.planning.transition import expand
from tests.unit.planning.factory import new_id
from tests.unit.planning.matching import PATTERN, found, job, matched, planned


# --- which streams an input has ---------------------------------------------------------------------------------------
def test_all_that_match_and_that_the_job_does_not_write_itself() -> None:
    there = ("in-b", "in-a", "in-out", "in-dead-letters", "begin-c", "in", "counts")
    assert found(job(), *there) == ("in-a", "in-b")
    assert found(job(), "j-markers", "j-controls", "j-trips", pattern="j-.*") == ("j-trips",)


def test_what_is_put_aside_between_its_stages_is_not_read_again() -> None:
    made = Job("j")
    between = made.read("in", key="k string", schema="n int").partition_by("n", name="by-n")
    between.map(lambda row: row, schema="n int").write("out")
    (stream,) = (stages.stream_of(made.graph, node) for node in made.graph.nodes if is_boundary(node))
    there = (stream, f"{stream}-dead-letters", "j-trips")
    assert found(made, *there, pattern="j-.*") == ("j-trips",), "a job that feeds itself never ends"


def test_the_whole_name_has_to_match() -> None:
    assert found(job(), "in-a", "in-ab", pattern="in-.") == ("in-a",)


def test_one_that_is_read_by_its_name_is_not_read_twice() -> None:
    made = job()
    made.read("in-b", schema="n int").write("bs")
    assert found(made, "in-a", "in-b") == ("in-a",)


def test_one_that_is_read_by_its_name_from_another_system_does_not_come_later() -> None:
    """The plan leaves it out, so what comes while the job runs has to, or the next plan would miss it."""
    made = job()
    made.read("in-b", schema="n int").write("bs")
    model = planned(job(), in_a=2).model
    assert patterns.coming(made.graph, model, {"embedded/in-b": 2, "embedded/in-c": 2}) == ["embedded/in-c"]


def test_streams_that_come_are_the_last_ones() -> None:
    model = planned(job(), in_b=2, in_c=2).model
    assert found(job(), "in-a", "in-b", "in-c", known=model) == ("in-b", "in-c", "in-a")
    assert found(job(), "in-a", "in-b", "in-c", known=model, new=False) == ("in-b", "in-c")


def test_none_at_all_or_one_that_is_gone_is_an_error() -> None:
    with pytest.raises(NotFoundError, match=r"read 'in' .*no stream in embedded has a name that matches 'in-\.\*'"):
        found(job(), "other", "begin-a")
    model = planned(job(), in_a=2, in_b=2).model
    for pattern, there in ((PATTERN, ("in-a",)), ("in-a", ("in-a", "in-b"))):
        with pytest.raises(NotFoundError, match="has read stream 'in-b' so far"):
            found(job(), *there, known=model, pattern=pattern)


def test_what_cannot_be_many_streams_is_refused() -> None:
    made = Job("j")
    rows = made.read("rows", key="k string", schema="n int")
    rows.merge(made.read("in", key="k string", schema="n int", broadcast=True)).write("out")
    with pytest.raises(GraphError, match=r"read 'in'.*is a broadcast, and is bound to the pattern"):
        patterns.check(made.graph, {"in": PATTERN})
    with pytest.raises(GraphError, match=r"write 'out'.*is an output"):
        patterns.check(made.graph, {"out": PATTERN})
    patterns.check(made.graph, {"rows": PATTERN})


@pytest.mark.parametrize(
    ("stream", "says"),
    [
        ({"pattern": "in-("}, "isn't a regular expression"),
        ({"pattern": PATTERN, "topic": "in", "system": "kafka"}, "topic is for one stream"),
        ({"pattern": PATTERN, "delivery": "at-least-once", "system": "kafka"}, "delivery is for one stream"),
        ({"pattern": PATTERN, "format": "confluent"}, "which subject"),
    ],
)
def test_settings_that_make_no_sense(stream: dict[str, str], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        Settings(streams={"in": stream})  # type: ignore[dict-item]


# --- a plan -----------------------------------------------------------------------------------------------------------
def test_a_plan_has_all_of_them_and_one_stream_of_dead_letters() -> None:
    plan = planned(job(), in_a=2, in_b=4, grouper="cogroup")
    (stage,) = plan.model.stages
    assert stage.inputs == ("embedded/in-a", "embedded/in-b")
    assert stage.patterns == matched("in-a", "in-b")
    for lane in plan.lanes:
        assert {ssp.stream for ssp in lane.ssps} == {"in-a", "in-b"}
        assert lane.matched == {"in": ("in-a", "in-b")}
        assert lane.dead_letters == {"in-a": "in-dead-letters", "in-b": "in-dead-letters"}
        assert lane.outputs["in-dead-letters"] == 4
    with pytest.raises(GraphError, match=r"in-a \(2 partitions\) and embedded/in-b \(4\) by key"):
        planned(job(), in_a=2, in_b=4)


# --- streams that come ------------------------------------------------------------------------------------------------
def lanes_of(plan: Plan) -> dict[str, Lane]:
    return {lane.id: lane for lane in planning.lanes_of(plan, 4, new_id)}


@pytest.mark.parametrize(
    ("grouper", "first", "count", "says"),
    [
        ("partition", {"in_a": 2}, 4, "in-b is new and has 4 partitions, but embedded/in-a had 2"),
        ("ssp", {"in_a": 2}, 2, "with grouper 'ssp', records of one key would be in"),
        ("cogroup", {"in_a": 4}, 6, "in-b has 6 partitions, and stage 0 has 4 groups of keys"),
    ],
)
def test_a_stream_that_would_part_keys_is_refused(grouper: str, first: dict[str, int], count: int, says: str) -> None:
    plan = planned(job(), grouper, **first)
    with pytest.raises(ConflictError, match=says):
        expand.expanded(job().graph, plan.model, lanes_of(plan), {"embedded/in-b": count}, new_id)


def test_it_counts_with_how_many_partitions_streams_began() -> None:
    plan = planned(job(), in_a=2)
    wide = expand.expanded(job().graph, plan.model, lanes_of(plan), {"embedded/in-a": 4}, new_id)
    both = expand.expanded(
        job().graph, wide.model, {lane.id: lane for lane in wide.lanes}, {"embedded/in-b": 2}, new_id
    )
    assert [len(task.ssps) for task in both.model.stages[0].tasks] == [3, 3]


def test_one_stream_for_two_inputs_is_refused() -> None:
    made = job()
    made.read("more", key="k string", schema="n int").merge(made.read("in", key="k string", schema="n int"))
    stage = planned(job(), in_a=2).model.stages[0]
    two = {**stage.patterns, "more": Matched(system="embedded", pattern=".*-b", streams=("x-b",))}
    with pytest.raises(ConflictError, match="in-b matches the patterns of in and more"):
        patterns.widened(msgspec.structs.replace(stage, patterns=two), ["embedded/in-b"])


def test_others_do_not_come() -> None:
    model = planned(job(), in_a=2).model
    there = {"embedded/in-a": 2, "embedded/in-out": 2, "kafka/in-b": 2, "embedded/begin": 1, "embedded/in-c": 0}
    assert patterns.coming(job().graph, model, there) == []
    assert expand.seen(job().graph, model, {**there, "embedded/in-b": 3}) == {"embedded/in-a": 2, "embedded/in-b": 3}
