"""A lane whose query was analyzed, or begun, before it was known where it begins, reads on from where others end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import pytest
from pyspark.sql import SparkSession

from anabranch import Job, crash_points
from anabranch.container.lane.handover import PrestartedQuery, Prestarter
from anabranch.deadlines import wait_until
from anabranch.model.lane import Lane
from anabranch.model.ssp import SSP
from anabranch.spark.query.preanalysis import PreanalyzedQuery
from anabranch.spark.query.query import LaneQuery
from anabranch.testing import KILL, SCALE, Message, run
from anabranch.testing.broker import Cluster
from tests.support import spark_java

pytestmark = pytest.mark.usefixtures("spark")

KEYS = 7
COUNT = 240


def sql(job: Job) -> None:
    read = job.read("in", schema="n int")
    read.where("n >= 0").write("out")


def functions(job: Job) -> None:
    def half(message: dict[str, Any]) -> dict[str, Any]:
        if message["n"] == 33:
            raise ValueError("not this one")
        return message

    job.read("in", schema="n int").map(half, name="half").write("out")


@pytest.mark.long
@pytest.mark.parametrize("build", [sql, functions])
def test_each_record_once_and_in_order(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, build: Any) -> None:
    known = spied(monkeypatch, PreanalyzedQuery, "known")
    gone_on, fits = spied(monkeypatch, PrestartedQuery, "go_on"), spied(monkeypatch, PrestartedQuery, "begins_as")
    check(cluster, build, [(200, SCALE(2)), (150, SCALE(1)), (100, KILL), (60, SCALE(4))])
    assert any(found is not None for found in known)
    assert gone_on
    assert all(fits), "a query was begun elsewhere than its lane begins, and so in vain"


@pytest.mark.long
def test_a_lane_that_begins_elsewhere_than_was_told_is_begun_anew(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told(beginnings: Prestarter, lane: str, ends: Mapping[SSP, int]) -> None:
        as_it_was(beginnings, lane, {ssp: max(0, at - 3) for ssp, at in ends.items()})

    as_it_was = Prestarter.end_at
    abandoned, gone_on = spied(monkeypatch, PrestartedQuery, "abandon"), spied(monkeypatch, PrestartedQuery, "go_on")
    monkeypatch.setattr(Prestarter, "end_at", told)
    check(cluster, sql, [(150, SCALE(2)), (60, SCALE(1))])
    assert abandoned
    assert not gone_on


@pytest.mark.long
def test_a_query_that_was_begun_ahead_and_failed_is_begun_anew(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(step: str, lane: str, _: int) -> None:
        if step == crash_points.AHEAD:
            raise RuntimeError("it fails")

    def take(prestarter: Prestarter, lane: Lane) -> PrestartedQuery | None:
        found = as_it_was(prestarter, lane)
        if found is not None:
            wait_until(lambda: found.has_failed or None, 60.0, lambda: AssertionError("it goes on"), 0.05)
            failed.append(lane.id)
        return found

    as_it_was, failed = Prestarter.take, list[str]()
    gone_on = spied(monkeypatch, PrestartedQuery, "go_on")
    monkeypatch.setattr(Prestarter, "take", take)
    with crash_points.watched(fail):
        check(cluster, sql, [(150, SCALE(2)), (60, SCALE(1))])
    assert failed
    assert not gone_on


@pytest.mark.parametrize("build", [sql, functions])
@pytest.mark.long
def test_spark_compiles_nothing_for_a_lane_like_a_former_one(
    spark: SparkSession, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, build: Any
) -> None:
    def publish(query: LaneQuery, *args: Any) -> None:
        as_it_was(query, *args)
        compiled[query.lane.id] = count()

    count = spark_java.compilations(spark)
    as_it_was, compiled = LaneQuery.publish, dict[str, int]()
    monkeypatch.setattr(LaneQuery, "publish", publish)
    check(cluster, build, [(200, SCALE(2)), (150, SCALE(1)), (100, SCALE(2))])
    first, scaled, *others = compiled.values()
    assert first > 0
    assert others == [scaled, scaled]


def spied(monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> list[Any]:
    """What a method has given so far."""
    as_it_is, seen = getattr(owner, name), list[Any]()

    def method(*args: Any) -> Any:
        found = as_it_is(*args)
        seen.append(found)
        return found

    monkeypatch.setattr(owner, name, method)
    return seen


def check(cluster: Cluster, build: Any, sentinels: list[tuple[int, Any]]) -> None:
    """Run a job with these before the records of these numbers, the last ones first: each record is there once and in
    order."""
    job = Job("foreseen")
    build(job)
    rows: list[Any] = [Message({"n": n}, key=f"k{n % KEYS}", partition=n % 2) for n in range(COUNT)]
    for place, sentinel in sentinels:
        rows.insert(place, sentinel)
    result = run(
        job,
        {"in": rows},
        partitions=2,
        max_rows_per_batch=20,
        timeout=300,
        on_error="dead-letter",
        broker=cluster.bootstrap_servers,
    )
    by_key: dict[bytes | None, list[int]] = defaultdict(list)
    for record in result.records("out"):
        by_key[record.key].append(record.value["n"])
    lost = {33} if build is functions else set()
    assert sorted(n for its in by_key.values() for n in its) == [n for n in range(COUNT) if n not in lost]
    if build is functions:
        assert len(result.records("in-dead-letters")) == 1
    for numbers in by_key.values():
        by_partition = [[n for n in numbers if n % 2 == p] for p in (0, 1)]
        assert all(its == sorted(its) for its in by_partition)
