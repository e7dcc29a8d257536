"""Processors in a graph: what state and timers they say that they have, and what they need."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from anabranch import Job, ListState, Timers
from anabranch.errors import GraphError
from anabranch.planning import groups, stages
from tests.unit.api.stored import TIMED, Counts, read


class Reminds(Counts):
    late = ListState("string")

    def on_timer(self, key: dict[str, Any], at: datetime, timers: Timers) -> None: ...


def test_the_graph_tells_what_state_there_is() -> None:
    job = Job("j")
    job.read("in", key="k string").process(Reminds(), timers="processing_time", schema="k string")
    node = job.graph.nodes[-1]
    assert (node.kind, node.name) == ("process", "process")
    assert node.args == {
        "schema": "k string",
        "timers": "processing_time",
        "state": {
            "n": {"kind": "value", "type": "long"},
            "by": {"kind": "map", "names": "string", "type": "count int"},
            "late": {"kind": "list", "type": "string"},
        },
    }


@pytest.mark.parametrize(
    ("processor", "timers", "said"),
    [
        (Counts, None, "the class Counts, not a processor"),
        (len, None, "not a processor"),
        (Counts(), "event_time", "no on_timer"),
        (Reminds(), None, "has an on_timer, and timers=None"),
        (Reminds(), "wall_clock", "timers='wall_clock'"),
    ],
)
def test_what_process_refuses(processor: Any, timers: Any, said: str) -> None:
    with pytest.raises(GraphError, match=said):
        Job("j").read("in", key="k string").process(processor, timers=timers)


@pytest.mark.parametrize(
    ("keyed", "timed", "timers", "said"),
    [
        ({}, {}, None, "keeps state but has no stage key: read 'in' .* declares no key="),
        ({"key": "k string"}, {}, "event_time", "has event-time timers, but its rows have no event time"),
        ({"key": "k string"}, {}, "processing_time", ""),
        ({"key": "k string"}, TIMED, "event_time", ""),
    ],
)
def test_what_a_processor_needs(keyed: Any, timed: Any, timers: Any, said: str) -> None:
    job = Job("j")
    processor = Counts() if timers is None else Reminds()
    read(job, **keyed, **timed).process(processor, timers=timers, name="p").write("out")
    (stage,) = stages.cut(job.graph)
    if said:
        with pytest.raises(GraphError, match=said):
            groups.cut(job.graph, stage, {"out": "embedded"})
        return
    (group,) = groups.cut(job.graph, stage, {"out": "embedded"})
    assert (group.name, bool(group.timed(job.graph))) == ("p", timers == "event_time")


def test_the_watermark_comes_through_a_boundary_to_event_time_timers_only() -> None:
    for timers in ("event_time", "processing_time"):
        job = Job("j")
        by = read(job, key="k string", **TIMED).partition_by("n")
        by.process(Reminds(), timers=timers, name="p").write("out")
        assert bool(stages.timed(job.graph)) == (timers == "event_time")
