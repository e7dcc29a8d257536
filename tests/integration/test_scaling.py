"""A job whose factor changes while it runs writes what it would have: each record once, each key in order."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from anabranch import Job, tumbling
from anabranch.coordinator.store import Store
from anabranch.model.lane import LaneState
from anabranch.testing import KILL, SCALE, Message, Result, run

pytestmark = pytest.mark.usefixtures("spark")

KEYS = [f"k{n}" for n in range(12)]
EVERY = 3
"""Seconds between two rows."""


def row(n: int) -> Message:
    at = f"2026-11-22T{n * EVERY // 3600:02}:{n * EVERY // 60 % 60:02}:{n * EVERY % 60:02}Z"
    return Message({"n": n, "at": at}, key=KEYS[n * 7 % 12] if n % 9 else None, partition=n % 3)


def job() -> Job:
    """A function, a stage by another key, a running count and windows there."""

    def seen(message: dict[str, Any]) -> dict[str, Any]:
        return {"n": message["n"], "at": message["at"], "mod": message["n"] % 5}

    made = Job("scaled")
    read = made.read("in", schema="n int, at timestamp", event_time="at", watermark="10 seconds")
    mapped = read.map(seen, schema="n int, at timestamp, mod int")
    mapped.write("seen")
    again = mapped.partition_by("mod")
    again.agg(n="count(*)", last="max(n)", name="counted").write("counts")
    again.window(tumbling("1 minute")).agg(n="count(*)", total="sum(n)", name="minutes").write("minutes")
    return made


def values(result: Result, stream: str) -> list[Mapping[str, Any]]:
    return [record.value for record in result.records(stream)]


def check(result: Result, count: int) -> None:
    """Against the rows themselves; the last window is still open."""
    assert Counter(value["n"] for value in values(result, "seen")) == Counter(range(count))
    by_key: dict[bytes, list[int]] = defaultdict(list)
    for record in result.records("seen"):
        if record.key is not None:
            by_key[record.key].append(record.value["n"])
    assert all(numbers == sorted(numbers) for numbers in by_key.values())
    assert len(by_key) == len(KEYS)
    last = {value["mod"]: value for value in values(result, "counts")}
    for mod in range(5):
        numbers = [n for n in range(count) if n % 5 == mod]
        assert (last[mod]["n"], last[mod]["last"]) == (len(numbers), max(numbers))
    wanted: dict[tuple[int, int], list[int]] = defaultdict(list)
    for n in range(count):
        wanted[n % 5, n * EVERY // 60].append(n)
    final = max(minute for _, minute in wanted)
    closed = {place: (len(its), sum(its)) for place, its in wanted.items() if place[1] < final}
    found = [
        ((value["mod"], int(value["window_start"][11:13]) * 60 + int(value["window_start"][14:16])), value)
        for value in values(result, "minutes")
    ]
    assert {place: (value["n"], value["total"]) for place, value in found} == closed
    assert len(found) == len(closed)


def test_factors_and_kills(tmp_path: Path) -> None:
    """1 → 4 → (killed) → 2 → 1, in the middle of a backlog each time."""
    rows: list[Any] = [row(n) for n in range(400)]
    for place, sentinel in ((350, SCALE(1)), (250, SCALE(2)), (180, KILL), (120, SCALE(4))):
        rows.insert(place, sentinel)
    result = run(job(), {"in": rows}, partitions=3, max_rows_per_batch=30, timeout=240, folder=tmp_path / "run")
    check(result, 400)
    store = Store(f"sqlite:///{tmp_path / 'run' / 'coordinator.db'}")
    lanes = list(store.lanes("scaled").values())
    open_ = [lane for lane in lanes if lane.state is not LaneState.CLOSED]
    assert (len(lanes), len(open_), {lane.factor for lane in open_}) == (12, 3, {1})
    assert store.model("scaled", 1, 4).factor == 1
    store.close()
