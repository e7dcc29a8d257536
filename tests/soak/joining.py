"""A job that joins two streams of different partition counts, and what must have come of their rows."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from anabranch import Job
from anabranch.testing import Message, Result

KEYS = [f"k{n}" for n in range(24)]
WITHIN = timedelta(seconds=20)
FIRST = datetime(2026, 11, 22, tzinfo=UTC)
LATER = timedelta(hours=1)

Row = tuple[str, int, datetime]
"""A key, a number, and the event time."""
Pair = tuple[str, int, int | None]


def job(how: Literal["inner", "left"] = "left") -> Job:
    made = Job("joined")
    asked = made.read("asked", key="k string", schema="n int, at timestamp", event_time="at", watermark="10 seconds")
    told = made.read("told", key="k string", schema="n int, at timestamp", event_time="at", watermark="10 seconds")
    asked.join(told, within="20 seconds", how=how, prefix="told_", name="answers").write("answers")
    return made


def asked(n: int) -> Row:
    """Every third of them finds nothing."""
    return KEYS[n * 7 % 24], n, FIRST + n * timedelta(seconds=3)


def told(n: int) -> Row:
    return KEYS[n * 5 % 24], n, FIRST + n * timedelta(seconds=2.5)


def message(row: Row) -> Message:
    key, n, at = row
    return Message({"n": n, "at": at.isoformat()}, key=key)


def last(count: int) -> list[Row]:
    """So much later that all before it has been joined, and of so many keys that each partition has some."""
    return [(f"l{number}", count + number, FIRST + LATER) for number in range(100)]


def computed(left: list[Row], right: list[Row], how: str) -> Counter[Pair]:
    """The join itself, of the rows before the last ones."""
    by_key: dict[str, list[Row]] = {}
    for row in right:
        by_key.setdefault(row[0], []).append(row)
    found: Counter[Pair] = Counter()
    for key, n, at in left:
        its = [other for _, other, then in by_key.get(key, ()) if abs(then - at) <= WITHIN]
        found.update((key, n, other) for other in its)
        if how == "left" and not its:
            found[key, n, None] += 1
    return found


def written(result: Result) -> Counter[Pair]:
    """What came out of the rows before the last ones; each under its key."""
    found: Counter[Pair] = Counter()
    for record in result.records("answers"):
        value: Any = record.value
        assert record.key == value["k"].encode()
        if datetime.fromisoformat(value["at"]) < FIRST + LATER:
            found[value["k"], value["n"], value.get("told_n")] += 1
    return found
