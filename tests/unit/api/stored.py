"""A processor's state in memory, and graphs that tests read."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from anabranch import Job, MapState, Processor, Timers, ValueState


class Store:
    """All three kinds of state, and timers, of one key. ``asked``: how often it was read or written."""

    def __init__(self) -> None:
        self.value: Any = None
        self.entries: dict[Any, Any] = {}
        self.asked = 0

    def plain(self, value: Any) -> Any:
        if value == "wrong":
            raise TypeError("wrong")
        return copy.deepcopy(value)

    plain_name = plain

    def get(self, *name: Any) -> Any:
        self.asked += 1
        return self.entries.get(name[0]) if name else copy.deepcopy(self.value)

    def put(self, *given: Any) -> None:
        self.asked += 1
        if len(given) == 2:
            self.entries[given[0]] = given[1]
        else:
            self.value = given[0]

    def append(self, values: list[Any]) -> None:
        self.asked += 1
        self.value = [*(self.value or ()), *values]

    def items(self) -> Iterable[tuple[Any, Any]]:
        self.asked += 1
        return list(self.entries.items())

    def remove(self, name: Any) -> None:
        self.asked += 1
        self.entries.pop(name, None)

    def clear(self) -> None:
        self.asked += 1
        self.value, self.entries = None, {}


class Counts(Processor):
    n = ValueState("long")
    by = MapState("string", "count int")

    def on_message(self, message: dict[str, Any], timers: Timers) -> None: ...


def read(job: Job, **more: Any) -> Any:
    return job.read("in", schema="n int, at timestamp", **more)


TIMED: dict[str, Any] = {"event_time": "at", "watermark": "1 minute"}


class Kept:
    """Where the timers of a key are kept."""

    def __init__(self, *at: int) -> None:
        self.at = set(at)

    def all(self) -> Iterable[int]:
        return self.at

    def register(self, at: int) -> None:
        self.at.add(at)

    def delete(self, at: int) -> None:
        self.at.discard(at)
