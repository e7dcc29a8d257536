"""What may run in real time, and how many task slots that takes."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest

from anabranch import Job, tumbling
from anabranch.errors import ConfigError, GraphError
from anabranch.grouping import groupers
from anabranch.planning import plan as planning
from anabranch.planning.plan import AT_LEAST_ONCE, Plan, Surroundings
from anabranch.planning.real_time import RealTime
from anabranch.spark.session import session

FITTING = RealTime(on_error="fail", on_null_key="drop", watermark_scope="ssp", systems={"kafka"})


def planned(job: Job, settings: RealTime = FITTING, systems: dict[str, str] | None = None) -> Plan:
    around = Surroundings(
        factor=1,
        containers=1,
        grouper_name="partition",
        grouper=groupers.named("partition"),
        partitions={"in": 4},
        systems=systems or {},
        default_system="kafka",
        real_time=settings,
    )
    return planning.make(job.graph, around)


def job_with(kind: str) -> Job:
    job = Job("j")
    read = job.read("in", key="k string", schema="n int, at timestamp", event_time="at", watermark="1 minute")
    match kind:
        case "map":
            read.map(lambda m: m, name="f").write("out")
        case "filter":
            read.filter(lambda m: True, name="f").write("out")
        case "foreach_batch":
            read.foreach_batch(lambda *_: None, name="f")
        case "process":
            read.limit_per_key(3, name="f").write("out")
        case "agg":
            read.window(tumbling("1 hour")).agg(c="count(*)", name="f").write("out")
        case "processing":
            read.window(tumbling("1 hour"), time="processing").agg(c="count(*)", name="f").write("out")
        case "late":
            read.window(tumbling("1 hour"), on_late="fail").agg(c="count(*)", name="f").write("out")
    return job


@pytest.mark.parametrize("kind", ["map", "filter", "foreach_batch", "agg", "process"])
def test_an_operator_that_would_hold_rows_back_is_refused_by_name(kind: str) -> None:
    with pytest.raises(GraphError, match=rf"{kind} 'f' \(test_real_time.py:\d+\) can't run with trigger \"real-time\""):
        planned(job_with(kind))


@pytest.mark.parametrize(
    ("kind", "why"),
    [("processing", "windows of processing time go by batches"), ("late", 'on_late="fail" takes a Python function')],
)
def test_windows_that_need_batches_are_refused(kind: str, why: str) -> None:
    with pytest.raises(GraphError, match=why):
        planned(job_with(kind), RealTime("fail", "fail", "lane", {"kafka"}))


def test_windows_by_sparks_own_watermark_are_taken() -> None:
    assert planned(job_with("agg"), RealTime("fail", "fail", "lane", {"kafka"})).lanes


@pytest.mark.parametrize("setting", ["on_error", "on_null_key"])
def test_putting_records_aside_is_refused(setting: str) -> None:
    settings = {"on_error": "drop", "on_null_key": "drop", setting: "dead-letter"}
    with pytest.raises(ConfigError, match=f'{setting} is "dead-letter"'):
        planned(_plain(), RealTime(**settings, watermark_scope="ssp", systems={"kafka"}))


def test_a_batch_that_is_shorter_than_spark_allows_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"batches of at least 5 s, but interval is 4\.999 s"):
        planned(_plain(), replace(FITTING, interval=4.999))
    for interval in (0.0, 5.0):
        assert planned(_plain(), replace(FITTING, interval=interval)).lanes


@pytest.mark.parametrize("stream", ["in", "out"])
def test_streams_elsewhere_are_refused(stream: str) -> None:
    with pytest.raises(GraphError, match=f"stream '{stream}' lives in embedded"):
        planned(_plain(), systems={stream: "embedded"})


def test_it_promises_no_more_than_once_at_least_and_has_no_dead_letters() -> None:
    made = planned(_plain())
    assert {output.promise for output in made.outputs} == {AT_LEAST_ONCE}
    assert [output.stream for output in made.outputs] == ["out", "counts"]
    assert [lane.group for lane in made.lanes] == ["outputs-kafka-at-least-once", "counts"]
    numbers = count()
    assert all(not lane.dead_letters for lane in planning.lanes_of(made, 2, lambda: f"{next(numbers):08x}"))


def test_every_task_of_every_lane_has_a_slot() -> None:
    made = planned(_plain())
    assert planning.task_slots(made.lanes, state_partitions=3) == 4 + 4 + 3
    assert session.master_of(None, 11).startswith("local[11,")
    for fitting in ("local[11,4]", "local-cluster[2,1,1024]", "spark://host:7077"):
        assert session.master_of(fitting, 11) == fitting
    for small in ("local[10]", "local[2,4]", "local"):
        with pytest.raises(ConfigError, match="too few task slots: 11 tasks"):
            session.master_of(small, 11)


def test_all_cores_of_a_machine_may_be_too_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 10)
    assert session.master_of("local[*]") == "local[*]"
    for master in ("local[*]", "local[*,4]"):
        assert session.master_of(master, 10) == master.replace("*", "10")
        with pytest.raises(ConfigError, match="too few task slots: 11 tasks"):
            session.master_of(master, 11)


def _plain() -> Job:
    job = Job("j")
    read = job.read("in", key="k string", schema="n int")
    read.where("n > 0").write("out")
    read.agg(c="count(*)", name="counts").write("counts")
    return job
