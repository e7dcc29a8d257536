"""A job that lives through factors and kills in any order, and what must have come of its rows."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from anabranch import Job, tumbling
from anabranch.testing import BATCH, KILL, SCALE, Message, Result, run
from tests.acceptance.harness import Workspace

COUNT = 500
_STEPS = 6
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


def lived_through(seed: int, workspace: Workspace) -> str:
    """A history by chance; the embedded log or, where there is one, the broker of the workspace."""
    dice = random.Random(seed)
    rows: list[Any] = [row(n) for n in range(COUNT)]
    places = sorted(dice.sample(range(20, COUNT - 20), _STEPS), reverse=True)
    steps = [dice.choice([KILL, BATCH, *(SCALE(factor) for factor in (1, 2, 4, 8, 16, 32, 64))]) for _ in places]
    for place, step in zip(places, reversed(steps), strict=True):
        rows.insert(place, step)
    broker = None if workspace.cluster is None else workspace.cluster.bootstrap_servers
    most = dice.choice([20, 40, 80])
    result = run(
        job(), {"in": rows}, broker=broker, partitions=3, max_rows_per_batch=most, timeout=1200, state_partitions=2
    )
    check(result, COUNT)
    return ", ".join(map(str, steps))
