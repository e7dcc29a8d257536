"""A job that lives through factors, rewinds and kills in any order, and what must have come of its rows."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from anabranch import Job, tumbling
from anabranch.testing import BATCH, KILL, REWIND, SCALE, Message, Result, run
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


def check(result: Result, count: int, rewinds: Sequence[REWIND] = ()) -> None:
    """Against the rows themselves; the last window is still open. ``rewinds``: all with the same ``state``, and those
    that clear it to the beginning."""
    seen = Counter(value["n"] for value in values(result, "seen"))
    assert seen.keys() == set(range(count))
    assert max(seen.values()) <= 1 + len(rewinds)
    by_key: dict[bytes, list[int]] = defaultdict(list)
    for record in result.records("seen"):
        if record.key is not None:
            by_key[record.key].append(record.value["n"])
    for numbers in by_key.values():
        assert is_in_order(numbers, rewinds), numbers
    assert len(by_key) == len(KEYS)
    keeps = any(each.state == "keep" for each in rewinds)
    last = {value["mod"]: value for value in values(result, "counts")}
    for mod in range(5):
        numbers = [n for n in range(count) if n % 5 == mod]
        wanted = sum(seen[n] for n in numbers) if keeps else len(numbers)
        assert (last[mod]["n"], last[mod]["last"]) == (wanted, max(numbers))
    windows: dict[tuple[int, int], list[int]] = defaultdict(list)
    for n in range(count):
        windows[n % 5, n * EVERY // 60].append(n)
    final = max(minute for _, minute in windows)
    closed = {place: (len(its), sum(its)) for place, its in windows.items() if place[1] < final}
    found = [
        ((value["mod"], int(value["window_start"][11:13]) * 60 + int(value["window_start"][14:16])), value)
        for value in values(result, "minutes")
    ]
    if keeps:  # what was still open has taken some rows again; what was closed has not come back
        assert sorted(place for place, _ in found) == sorted(closed)
        assert all(value["n"] >= closed[place][0] for place, value in found)
        return
    assert {place: (value["n"], value["total"]) for place, value in found} == closed
    assert all((value["n"], value["total"]) == closed[place] for place, value in found)
    assert len(found) <= len(closed) * (1 + len(rewinds))


def is_in_order(numbers: Sequence[int], rewinds: Sequence[REWIND]) -> bool:
    """Whether a key's rows come one after the other, but for the places where a rewind begins again, in their order."""
    partition, its = numbers[0] % 3, sorted(set(numbers))
    begins = [0 if each.to == "earliest" else each.to["in"][partition] for each in rewinds]  # type: ignore[index]
    places = [next((at for at, n in enumerate(its) if n // 3 >= begin), len(its)) for begin in begins]
    at, used = 0, 0
    for n in numbers:
        if at == len(its) or n != its[at]:
            back = next((m for m in range(used, len(places)) if places[m] < at and its[places[m]] == n), None)
            if back is None:
                return False
            at, used = places[back], back + 1
        at += 1
    return at == len(its)


def lived_through(seed: int, workspace: Workspace) -> str:
    """A history by chance; the embedded log or, where there is one, the broker of the workspace."""
    dice = random.Random(seed)
    rows: list[Any] = [row(n) for n in range(COUNT)]
    places = sorted(dice.sample(range(20, COUNT - 20), _STEPS), reverse=True)
    state = dice.choice(["keep", "clear"])
    steps: list[Any] = []
    for place in reversed(places):
        some = {"in": {p: dice.randrange(place // 3 - 1) for p in range(3)}}
        to = some if state == "keep" and workspace.cluster is None and dice.random() < 0.5 else "earliest"
        rewind = REWIND(to, state=state)
        steps.append(
            dice.choice([KILL, BATCH, rewind, rewind, *(SCALE(factor) for factor in (1, 2, 4, 8, 16, 32, 64))])
        )
    for place, step in zip(places, reversed(steps), strict=True):
        rows.insert(place, step)
    broker = None if workspace.cluster is None else workspace.cluster.bootstrap_servers
    most = dice.choice([20, 40, 80])
    result = run(
        job(), {"in": rows}, broker=broker, partitions=3, max_rows_per_batch=most, timeout=1200, state_partitions=2
    )
    check(result, COUNT, [step for step in steps if isinstance(step, REWIND)])
    return ", ".join(map(str, steps))
