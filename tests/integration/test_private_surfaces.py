"""Spark's private surfaces: this Spark has them all. Each is taken away, one by one: then what depends on it works in a
slower way, or is refused with the versions in the text."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from anabranch import Job, Processor, Timers, ValueState
from anabranch.config import Settings
from anabranch.container.checkpoint.folder import Folder
from anabranch.errors import AnabranchError, UnsupportedSparkError
from anabranch.spark.internals import (
    batch_clock,
    checkpoint_files,
    checkpoint_layout,
    class_path,
    error_texts,
    executors,
    hadoop_files,
    java,
    java_functions,
    java_process,
    local_properties,
    observed_metrics,
    probes,
    query_hold,
    query_plan,
    query_progress,
    read_limits,
    source_environment,
    state_rewrite,
    state_rows,
    stop_at_batch,
    surface,
    thread_dump,
    type_verifiers,
    unsupported_operations,
    whole_input,
    worker_start,
)
from anabranch.spark.internals.surface import JavaMembers, Surface
from anabranch.spark.session import session
from tests.integration.harness import Site
from tests.support.surfaces import WHY, lacking

WITHIN = 10.0
"""Seconds in which a feature is refused."""


@pytest.mark.parametrize("each", probes.SURFACES, ids=lambda each: each.name)
def test_this_spark_has_it(spark: SparkSession, each: Surface) -> None:
    each.forget()
    probe = each.probe(spark)
    assert probe.missing == ""
    assert probe.summary == f"as in {surface.SUPPORTED}"


@pytest.mark.parametrize(
    ("need", "missing"),
    [
        (JavaMembers("org.apache.spark.sql.Gone"), "it has no class org.apache.spark.sql.Gone"),
        (
            JavaMembers("org.apache.spark.sql.execution.QueryExecution", ("analyzed", "renamed", "gone")),
            "org.apache.spark.sql.execution.QueryExecution has no gone, renamed",
        ),
        # The parent of a class declares it.
        (
            JavaMembers("org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution", ("awaitProgressLock",)),
            "",
        ),
    ],
)
def test_what_is_not_there_is_missed(spark: SparkSession, need: JavaMembers, missing: str) -> None:
    assert need.missing(spark) == missing


def counting(site: Site) -> Job:
    site.log.create("in", 1)
    site.put("in", 0, [{"n": n} for n in range(40)], [b"a"] * 40)
    job = Job("j")
    job.read("in", key="k string", schema="n int").agg(c="count(*)", s="sum(n)").write("out")
    return job


SLOWER = [batch_clock.SURFACE, stop_at_batch.SURFACE, query_progress.SURFACE, query_hold.SURFACE, error_texts.SURFACE]


@pytest.mark.parametrize("missing", SLOWER, ids=lambda each: each.name)
@pytest.mark.suite(cases=1)
def test_a_job_runs_without(site: Site, missing: Surface) -> None:
    run = site.deployed(counting(site), max_rows_per_batch=10)
    with lacking(missing):
        run.ran()
    assert site.values("out")[-1] == {"k": "a", "c": 40, "s": sum(range(40))}


def same(row: dict[str, Any]) -> dict[str, Any]:
    return row


@pytest.mark.long
def test_batches_keep_the_size_that_they_begin_with(site: Site) -> None:
    site.log.create("in", 1)
    site.put("in", 0, [{"n": n} for n in range(400)])
    job = Job("j")
    job.read("in", schema="n int").map(same).write("out")
    run = site.deployed(job, target_batch_seconds=2.0)
    with lacking(read_limits.SURFACE):
        run.ran()
    (lane,) = run.lanes
    folder = run.folder(lane)
    ends = [folder.planned_positions(batch)["in"][0] for batch in range(folder.planned() + 1)]
    assert ends == [*range(50, 401, 50)], "they would be of more than 50 from the second or third one on"
    assert [value["n"] for value in site.values("out")] == [*range(400)]


def test_spark_says_itself_what_it_can_not_run(site: Site) -> None:
    site.log.create("in", 1)
    site.put("in", 0, [{"n": 1}], [b"a"])
    job = Job("j")
    job.read("in", key="k string", schema="n int").agg(c="count(distinct n)").write("out")
    with pytest.raises(AnabranchError, match="can't run on a stream"):
        site.deployed(job)
    with lacking(unsupported_operations.SURFACE):
        run = site.deployed(job)
        with pytest.raises(AssertionError, match="istinct"):
            run.ran()


def test_sources_have_the_environment_that_public_settings_give(spark: SparkSession) -> None:
    before = source_environment.of_session(spark)
    with lacking(source_environment.SURFACE):
        found = source_environment.of_session(spark)
    assert {**found, "SPARK_LOCAL_DIRS": ""} == {**before, "SPARK_LOCAL_DIRS": ""}
    assert found["SPARK_LOCAL_DIRS"]


def test_the_connector_is_found_by_opening_a_topic(spark: SparkSession) -> None:
    assert class_path.has_kafka_connector(spark)
    with lacking(class_path.SURFACE):
        assert class_path.has_kafka_connector(spark)


def test_pythons_threads_are_shown_alone(spark: SparkSession) -> None:
    with lacking(thread_dump.SURFACE):
        told = thread_dump.of_lane(spark, "0")
    assert WHY in told
    assert "only Python's threads are shown" in told
    assert "(Python)" in told


def test_what_the_java_process_does_is_seen_by_calls_that_fail(spark: SparkSession) -> None:
    with lacking(java_process.SURFACE):
        assert not java_process.SURFACE.works(spark)
        assert "when its next call fails" in java_process.probe(spark).summary


class Last(Processor):
    """The last message of a key."""

    last = ValueState("long")

    def on_message(self, message: dict[str, Any], timers: Timers) -> Iterator[dict[str, Any]]:
        self.last.set(message["n"])
        yield {"k": message["k"], "n": message["n"]}


def processing(site: Site) -> Job:
    site.log.create("in", 1)
    site.put("in", 0, [{"n": 1}], [b"a"])
    job = Job("j")
    job.read("in", key="k string", schema="n int").process(Last(), schema="k string, n long").write("out")
    return job


def keyed(site: Site) -> Job:
    site.log.create("in", 1)
    job = Job("j")
    job.read("in", key="k string", schema="n int").partition_by("n").agg(c="count(*)").write("out")
    return job


REFUSED: dict[Surface, Callable[[SparkSession, Site], object]] = {
    checkpoint_files.SURFACE: lambda spark, _: checkpoint_files.prepare(spark),
    checkpoint_layout.SURFACE: lambda spark, site: Folder(spark, f"file://{site.root}/lane"),
    hadoop_files.SURFACE: lambda spark, site: Folder(spark, f"file://{site.root}/lane"),
    executors.SURFACE: lambda spark, _: executors.cores(spark),
    java_functions.SURFACE: lambda _, site: site.deployed(counting(site)).ran(),
    query_plan.SURFACE: lambda _, site: site.deployed(keyed(site)),
    state_rewrite.SURFACE: lambda spark, _: state_rewrite.rewrite(spark, "a", "b", 0, 1, lambda rows: rows),
    state_rows.SURFACE: lambda spark, _: state_rows.read(spark, "nowhere", 0),
    type_verifiers.SURFACE: lambda _, site: site.deployed(processing(site)).ran(),
}
ALWAYS = [local_properties.SURFACE, observed_metrics.SURFACE, whole_input.SURFACE, worker_start.SURFACE]


@pytest.mark.parametrize("missing", REFUSED, ids=lambda each: each.name)
def test_a_feature_is_refused_in_time(spark: SparkSession, site: Site, missing: Surface) -> None:
    probes.insist(spark)
    with lacking(missing):
        probes.insist(spark)  # jobs that don't need it run
        begun = time.monotonic()
        with pytest.raises((UnsupportedSparkError, AssertionError)) as raised:
            REFUSED[missing](spark, site)
        assert time.monotonic() - begun < WITHIN
    said = str(raised.value)
    assert f"Spark 4.3.0 can't be used for {missing.used_for}: {WHY}" in said
    assert "anabranch supports PySpark 4.3" in said


@pytest.mark.parametrize("missing", ALWAYS, ids=lambda each: each.name)
def test_a_session_is_refused_in_time(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, missing: Surface) -> None:
    stopped = []
    monkeypatch.setattr(session, "stop", stopped.append)  # it is the session of all tests
    monkeypatch.setenv("PYSPARK_PYTHON", os.environ["PYSPARK_PYTHON"])
    with lacking(missing):
        begun = time.monotonic()
        with pytest.raises(UnsupportedSparkError, match=f"{missing.used_for}: {WHY}"):
            session.start(Settings())
        assert time.monotonic() - begun < WITHIN
    assert stopped == [spark]


def test_every_surface_was_taken_away() -> None:
    elsewhere = {"context_stop", "debug_lines", "source_start"}  # a session's start and end: tests/unit
    elsewhere |= {"kept_timers"}  # Spark's loop over timers: tests/unit
    here = [*SLOWER, *REFUSED, *ALWAYS]
    here += [unsupported_operations.SURFACE, source_environment.SURFACE, class_path.SURFACE, thread_dump.SURFACE]
    here += [java_process.SURFACE, read_limits.SURFACE]
    assert {each.name for each in here} | elsewhere == {each.name for each in probes.SURFACES}


def test_java_is_asked_once_for_a_class(spark: SparkSession) -> None:
    view = java.jvm(spark)
    assert java.java_class(spark, "java.util.ArrayDeque") is java.java_class(spark, "java.util.ArrayDeque")
    java.java_class(spark, "java.util.NoSuchThing")
    assert "java.util.NoSuchThing" not in vars(view), "it may come with a jar"
    assert {"functions", "PythonUtils", "org.apache.spark.sql.functions"} <= vars(view).keys(), "PySpark's own"


def test_why_java_code_does_not_compile(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "Halved.java").write_text(
        "package anabranch; public class Halved { int half() { return missing / 2; } }"
    )
    monkeypatch.setattr(java_functions, "_SOURCES", tmp_path)
    with pytest.raises(AnabranchError, match=r"can't compile Halved\.java: .*CompileException.*missing"):
        java_functions.class_of(spark, "Halved")
