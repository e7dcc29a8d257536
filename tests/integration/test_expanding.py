"""A job whose input gets more partitions while it runs: state stays with its keys, and nothing is missed or twice."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from anabranch import Job
from anabranch.coordinator.store import Store
from anabranch.grouping import expansion
from anabranch.testing import EXPAND, KILL, Message, Result, run

pytestmark = pytest.mark.usefixtures("spark")

KEYS = 25


def job() -> Job:
    made = Job("expanded")
    read = made.read("in", key="k string", schema="n int")
    read.where("n >= 0").write("seen")
    read.agg(n="count(*)", last="max(n)", name="counted").write("counts")
    return made


def row(n: int) -> Message:
    return Message({"n": n}, key=f"k{n % KEYS}")


def check(result: Result, count: int) -> None:
    values = [record.value for record in result.records("seen")]
    assert Counter(value["n"] for value in values) == Counter(range(count))
    counts: dict[bytes, list[int]] = defaultdict(list)
    for record in result.records("counts"):
        assert record.key is not None
        counts[record.key].append(record.value["n"])
    assert len(counts) == KEYS
    for key, its in counts.items():
        assert its == sorted(set(its)), f"{key!r} has two states"
        assert its[-1] == sum(n % KEYS == int(key[1:]) for n in range(count))


def test_an_input_grows_and_the_job_is_killed(tmp_path: Path) -> None:
    """2 → 6 partitions in the middle of a backlog, at factor 4; then it is killed."""
    rows: list[Any] = [row(n) for n in range(180)]
    for place, sentinel in ((140, KILL), (80, EXPAND(6))):
        rows.insert(place, sentinel)
    folder = tmp_path / "run"
    result = run(job(), {"in": rows}, partitions=2, factor=4, max_rows_per_batch=40, timeout=200, folder=folder)
    check(result, 180)
    store = Store(f"sqlite:///{folder / 'coordinator.db'}")
    (stage,) = store.model("expanded", 1, 2).stages
    assert expansion.partitions(stage) == {"embedded/in": 6}
    assert expansion.base_partitions(stage) == {"embedded/in": 2}
    assert [task.name for task in stage.tasks] == [f"Partition_{p}-{b}-4" for p in (0, 1) for b in range(4)]
    store.close()
