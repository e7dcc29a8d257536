"""A broadcast input in several containers, with factors, and while they change: every task has all of it, once."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest
from pyspark.sql import DataFrame

from anabranch import Job
from anabranch.model.lane import Position
from anabranch.spark.values import meta_column
from anabranch.testing import SCALE, Message, run
from tests.integration.harness import Site

pytestmark = pytest.mark.usefixtures("spark")

TASKS = 2
RULES = 6


def marked(df: DataFrame) -> DataFrame:
    """With the virtual task that a row is given to: that of a broadcast says its bucket."""
    return df.withColumns({"task": meta_column.field("task"), "bucket": meta_column.field("bucket")})


def doubled(message: dict[str, Any]) -> dict[str, Any]:
    if _raises(message["n"], message["bucket"]):
        raise ValueError("such a rule")
    return {**message, "n": message["n"] * 2}


def _raises(n: int, bucket: int | None) -> bool:
    """One record in all tasks, others in the first bucket of each, and in the last."""
    return n == 1001 or (n == 1003 and bucket in (None, 0)) or (n == 1004 and bucket in (None, 3))


def job() -> Job:
    made = Job("j")
    rules = made.read("rules", key="k string", schema="n int", broadcast=True)
    both = made.read("in", key="k string", schema="n int").merge(rules)
    told = both.transform(marked, name="marked").map(doubled, name="doubled")
    told.write("out", key="CAST(n AS string)")
    both.agg(c="count(*)", s="sum(n)").write("sums")
    return made


def virtual(factor: int) -> list[tuple[int, int | None]]:
    return [(task, bucket if factor > 1 else None) for task in range(TASKS) for bucket in range(factor)]


def given(values: list[Any]) -> Counter[tuple[int, tuple[int, int | None]]]:
    """How often a number came to a task; those from 1000 on are of the broadcast."""
    return Counter((v["n"], (v["task"], v.get("bucket"))) for v in values if v["n"] >= 1000)


@pytest.mark.long
@pytest.mark.parametrize("factor", [1, 4])
def test_two_containers(site: Site, factor: int) -> None:
    """What can't be read, and what has no key where one is needed, is put aside once for all tasks; what a function
    raises on, once in each container."""
    site.log.create("in", TASKS)
    site.log.create("rules", 2)
    for partition in range(TASKS):
        site.put("in", partition, [{"n": n} for n in range(10)], [f"k{n}".encode() for n in range(10)])
    keys = [f"k{n}".encode() for n in range(RULES)]
    for partition in (0, 1):
        rules: list[Any] = [{"n": 1000 + 10 * partition + n} for n in range(RULES)]
        site.put("rules", partition, [*rules, b"no rule", {"n": 1090}], [*keys, b"k", None])
    run = site.deployed(job(), factor=factor, containers=2, on_error="dead-letter", on_null_key="dead-letter")
    assert len(run.lanes) == 4
    run.ran()
    numbers = [1000 + 10 * p + n for p in (0, 1) for n in range(RULES)] + [1090] * 2
    assert given(site.values("out")) == Counter(
        (2 * n, each) for n in numbers for each in virtual(factor) if not _raises(n, each[1])
    )
    final = {(v["k"], v["c"], v["s"]) for v in site.values("sums")}
    for n in range(10):
        of_rules = [1000 + 10 * p + n for p in (0, 1)] if n < RULES else []
        assert (f"k{n}", 1 + len(of_rules), n + sum(of_rules)) in final
    assert Counter(v["k"] for v in site.values("sums")) == Counter({f"k{n}": TASKS for n in range(10)})
    aside = Counter(
        {h["key"]: h["value"] for h in each["headers"]}["anabranch.operator"]
        for each in site.all_records("rules-dead-letters")
    )
    assert sorted(aside.values()) == [2, 2, 2 * 3], aside


@pytest.mark.long
def test_tasks_that_are_further_than_others(site: Site) -> None:
    """A lane that goes on from others, which weren't equally far."""
    site.log.create("in", TASKS)
    site.log.create("rules", 2)
    for partition in (0, 1):
        site.put("rules", partition, [{"n": 1000 + 10 * partition + n} for n in range(RULES)], [b"k"] * RULES)
    made = Job("j")
    rules = made.read("rules", key="k string", schema="n int", broadcast=True)
    made.read("in", key="k string", schema="n int").merge(rules).transform(marked, name="marked").write("out")
    run = site.deployed(made, factor=2)
    (lane,) = run.lanes
    far, near = lane.broadcast
    begun = (Position(ssp=far, offset=1, parts={"0:0/1": 3, "1:0/4": 4, "1:2/4": 5}), Position(ssp=near, offset=0))
    run.lanes[0] = msgspec.structs.replace(lane, starting=begun)
    run.ran()
    begins = {(0, 0): 3, (0, 1): 3, (1, 0): 4, (1, 1): 1}
    wanted = [(1000 + n, each) for each, at in begins.items() for n in range(at, RULES)]
    wanted += [(1010 + n, each) for each in begins for n in range(RULES)]
    assert given(site.values("out")) == Counter(wanted)


@pytest.mark.long
def test_a_factor_that_changes() -> None:
    rows: list[Any] = [Message({"n": n}, key=f"k{n % 7}", partition=n % TASKS) for n in range(60)]
    rules: list[Any] = [Message({"n": 2000 + n}, key=f"k{n % 7}", partition=0) for n in range(60)]
    for several in (rows, rules):
        several.insert(30, SCALE(1))
    result = run(job(), {"in": rows, "rules": rules}, partitions=TASKS, factor=4, max_rows_per_batch=30, timeout=240)
    for n in range(60):
        came = [(v["task"], v.get("bucket")) for v in result["out"] if v["n"] == 2 * (2000 + n)]
        assert set(came) in (set(virtual(1)), *([set(virtual(4))] if n < 30 else [])), n
        assert len(came) == len(set(came)), n
    assert len([v for v in result["out"] if v["n"] < 1000]) == 60
    counted = {(v["k"], v["c"], v["s"]) for v in result["sums"]}
    for task in range(TASKS):
        for k in range(7):
            mine = [n for n in range(60) if n % 7 == k]
            every = [n for n in mine if n % TASKS == task] + [2000 + n for n in mine]
            assert (f"k{k}", len(every), sum(every)) in counted
