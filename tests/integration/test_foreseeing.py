"""A lane whose query was analyzed before it was known where it begins reads on from where others have ended."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

from anabranch import Job
from anabranch.spark.foreseeing import Foreseen
from anabranch.spark.query import LaneQuery
from anabranch.systems.kafka.broker import Cluster
from anabranch.testing import KILL, SCALE, Message, run

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


@pytest.mark.parametrize("build", [sql, functions])
def test_each_record_once_and_in_order(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, build: Any) -> None:
    known, seen = Foreseen.known, list[bool]()

    def spied(foreseen: Foreseen, query: LaneQuery) -> LaneQuery | None:
        found = known(foreseen, query)
        seen.append(found is not None)
        return found

    monkeypatch.setattr(Foreseen, "known", spied)
    job = Job("foreseen")
    build(job)
    rows: list[Any] = [Message({"n": n}, key=f"k{n % KEYS}", partition=n % 2) for n in range(COUNT)]
    for place, sentinel in ((200, SCALE(2)), (150, SCALE(1)), (100, KILL), (60, SCALE(4))):
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
    assert any(seen)
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
