"""Turns of keys, in this process and isolated: the same comes of them, but for messages that end the process."""

from __future__ import annotations

import dataclasses
import math
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from anabranch import ListState, MapState, Processor, ValueState
from anabranch.api.first_rows import FirstRows
from anabranch.api.timers import EVENT_TIME, Timers
from anabranch.spark.functions import turns
from anabranch.spark.functions.isolation import Host
from anabranch.spark.functions.turns import KeyedProcessor, Schemas, Turn, Turns

START = datetime(2026, 1, 1, tzinfo=UTC)
NOW = int(START.timestamp() * 1000)
RESULT = pa.schema([("n", pa.int64()), ("count", pa.int64()), ("all", pa.list_(pa.int64()))])
LIMIT = 2.0


class Counting(Processor):
    """``way``: what a message does, by its number, after it has changed all that there is."""

    count = ValueState("long")
    several = ListState("long")
    named = MapState("string", "long")
    ways: ClassVar[dict[int, str]] = {}

    def on_message(self, message: dict[str, Any], timers: Timers) -> Iterable[dict[str, Any]]:
        n = message["n"]
        self.count.set(self.count.get(0) + 1)
        self.several.append(n)
        self.named.set(f"k{n % 3}", self.named.get(f"k{n % 3}", 0) + n)
        timers.register(START + timedelta(seconds=n))
        yield {"n": 1.5 if message["way"] == "fraction" else n, "count": self.count.get(), "all": self.several.get()}
        match message["way"]:
            case "exit":
                os._exit(1)
            case "stuck":
                time.sleep(3600)
            case "raise":
                raise SystemExit(message)

    def on_timer(self, key: dict[str, Any], at: datetime, timers: Timers) -> Iterable[dict[str, Any]]:
        if key["k"] == "deadly":
            self.count.clear()
            os._exit(2)
        yield {"n": sum(value for _, value in self.named.items()), "count": self.count.get(0)}


def single(kind: Any) -> StructType:
    return StructType([StructField(turns.VALUE, kind)])


SCHEMAS = {
    "count": Schemas(None, single(LongType()), True),
    "several": Schemas(None, single(LongType()), True),
    "named": Schemas(single(StringType()), single(LongType()), True),
}


@dataclasses.dataclass
class Kept:
    """One state of one key, as Spark's store gives it."""

    value: Any = None
    several: list[Any] = dataclasses.field(default_factory=list)
    named: dict[Any, Any] = dataclasses.field(default_factory=dict)

    def get(self) -> Any:
        return self.value if self.value is not None else iter(self.several) if self.several else None

    def update(self, value: Any) -> None:
        self.value = value

    def put(self, values: list[Any]) -> None:
        self.several = list(values)

    def appendList(self, values: list[Any]) -> None:
        self.several += values

    def getValue(self, name: Any) -> Any:
        return self.named.get(name)

    def iterator(self) -> Iterator[Any]:
        return iter(self.named.items())

    def updateValue(self, name: Any, value: Any) -> None:
        self.named[name] = value

    def removeKey(self, name: Any) -> None:
        self.named.pop(name)

    def clear(self) -> None:
        self.value, self.several, self.named = None, [], {}


class EmptyList(Kept):
    def get(self) -> Any:
        return iter(self.several)


@dataclasses.dataclass
class KeptTimers:
    there: set[int] = dataclasses.field(default_factory=set)

    def all(self) -> Iterable[int]:
        return list(self.there)

    def register(self, at: int) -> None:
        self.there.add(at)

    def delete(self, at: int) -> None:
        self.there.discard(at)


class Key:
    """The state of a key."""

    def __init__(self) -> None:
        self.stored: dict[str, Any] = {"count": Kept(), "several": EmptyList(), "named": Kept()}
        self.timers = KeptTimers()

    @property
    def seen(self) -> Any:
        return {name: dataclasses.astuple(each) for name, each in self.stored.items()}, self.timers.there


KEYED = KeyedProcessor(Counting(), EVENT_TIME, RESULT, SCHEMAS, __file__)


@contextmanager
def isolated(key: Key, seconds: float = math.inf) -> Iterator[Turns]:
    host = Host(turns.service(KEYED))
    try:
        yield turns.isolated(host, key.stored, key.timers, seconds)
    finally:
        host.close()


def messages(first: int, ways: dict[int, str]) -> list[dict[str, Any]]:
    return [{"n": n, "way": ways.get(n, "")} for n in range(first, first + 10)]


def numbers(turn: Turn) -> list[int]:
    return [row["n"] for row in turn.rows]


@dataclasses.dataclass(frozen=True)
class Frozen(Counting):
    """A processor with settings that can't change. Its state is no field."""

    step: int = 1


def test_a_processor_can_be_a_frozen_dataclass() -> None:
    key, plain = Key(), Key()
    frozen = dataclasses.replace(KEYED, processor=Frozen(2))
    turn = frozen.opened(key.stored, key.timers).on_messages(NOW, messages(0, {}), lambda _: None, False)
    same = KEYED.opened(plain.stored, plain.timers).on_messages(NOW, messages(0, {}), lambda _: None, False)
    assert (turn.rows, key.seen) == (same.rows, plain.seen)


def test_isolated_turns_give_the_same_and_keep_the_same() -> None:
    here, there = Key(), Key()
    ways = {3: "raise", 14: "fraction"}
    local = KEYED.opened(here.stored, here.timers)
    with isolated(there) as isolated_turns:
        for first in (0, 10, 20):
            wanted = local.on_messages(NOW, messages(first, ways), lambda _: None, False)
            assert isolated_turns.on_messages(NOW, messages(first, ways), lambda _: None, False) == wanted
            assert here.seen == there.seen
        at = NOW + 5000
        wanted = local.on_timer(NOW, {"k": "a"}, at, lambda _: None, False)
        assert isolated_turns.on_timer(NOW, {"k": "a"}, at, lambda _: None, False) == wanted
    assert wanted.rows == [{"n": sum(n for n in range(30) if n not in ways), "count": 28, "all": None}]


@pytest.mark.long
def test_a_message_that_kills_leaves_nothing_behind_and_takes_nothing_with_it() -> None:
    key, without = Key(), Key()
    ways = {2: "exit", 5: "raise", 7: "exit", 9: "exit"}
    with isolated(key) as isolated_turns:
        turn = isolated_turns.on_messages(NOW, messages(0, ways), lambda _: None, False)
    rejected = {each.place: each.error for each in turn.rejected}
    assert rejected.keys() == ways.keys()
    assert rejected[7] == "the worker died on it 3 times: it ended with exit code 1"
    assert rejected[5].startswith("SystemExit: {'n': 5")
    rest = [each for each in messages(0, {}) if each["n"] not in ways]
    same = KEYED.opened(without.stored, without.timers).on_messages(NOW, rest, lambda _: None, False)
    assert (turn.rows, turn.timers, key.seen) == (same.rows, same.timers, without.seen)


@pytest.mark.long
def test_a_timer_that_kills_changes_nothing() -> None:
    key = Key()
    with isolated(key) as isolated_turns:
        isolated_turns.on_messages(NOW, messages(0, {}), lambda _: None, False)
        before = key.seen
        turn = isolated_turns.on_timer(NOW, {"k": "deadly"}, NOW, lambda _: None, False)
        assert turn.rejected[0].error == "the worker died on it 3 times: it ended with exit code 2"
        assert (turn.rows, key.seen) == ([], before)


def test_a_message_that_takes_too_long_is_left_out() -> None:
    key = Key()
    with isolated(key, LIMIT) as isolated_turns:
        turn = isolated_turns.on_messages(NOW, messages(0, {4: "stuck"}), lambda _: None, False)
    assert numbers(turn) == [n for n in range(10) if n != 4]
    assert [(each.place, each.error) for each in turn.rejected] == [
        (4, "the function worked on it for more than 2 s: [job] message_timeout")
    ]


def test_a_limit_passes_nan_and_infinity_and_other_processors_must_not_return_them() -> None:
    class Same(Processor):
        def on_message(self, message: dict[str, Any], timers: Timers) -> Iterable[dict[str, Any]]:
            yield message

    result = pa.schema([("x", pa.float64()), ("y", pa.list_(pa.float32()))])
    rows: list[dict[str, Any]] = [{"x": math.nan, "y": None}, {"x": 1.5, "y": [-math.inf, None]}]
    cases: list[tuple[Processor, list[dict[str, Any]]]] = [(FirstRows(2), rows), (Same(), [])]
    for processor, passed in cases:
        schemas = dict.fromkeys(processor.states(), SCHEMAS["count"])
        keyed = KeyedProcessor(processor, None, result, schemas, __file__)
        turn = keyed.opened({name: Kept() for name in schemas}, None).on_messages(0, rows, lambda _: None, False)
        assert repr(turn.rows) == repr(passed)
        assert len(turn.rejected) == len(rows) - len(passed)


class Wrong(Processor):
    """Changes state before it uses a value or a name of another type than declared."""

    count = ValueState("long")
    named = MapState("string", "long")

    def on_message(self, message: dict[str, Any], timers: Timers) -> Iterable[dict[str, Any]]:
        self.count.set(self.count.get(0) + 1)
        self.named.set("7", self.named.get("7", 0) + 1)
        match message["n"]:
            case 0:
                self.count.set("5")
            case 1:
                self.named.set(7, 1)
            case 2:
                self.named.get(7)
            case 3:
                self.named.delete(7)
            case 4:
                self.named.set("8", 1.5)
        yield {"n": self.named.get("7")}


def test_a_value_or_name_of_another_type_rejects_its_message_and_changes_nothing() -> None:
    key = Key()
    schemas = {"count": SCHEMAS["count"], "named": SCHEMAS["named"]}
    local = KeyedProcessor(Wrong(), None, RESULT, schemas, __file__).opened(key.stored, None)
    begun: list[int] = []
    turn = local.on_messages(0, [{"n": n} for n in range(6)], begun.append, False)
    assert begun == [0, 1, 2, 3, 4, 5, 6]  # the end of the last call, too
    name = "TypeError: the name of an entry in state 'named' is declared as 'string', but was given 7 (int): give a str"
    told = [each.error for each in turn.rejected]
    assert told[0].startswith("TypeError: state 'count' is declared as 'long', but was given '5' (str): give an int")
    assert all(each.startswith(name) for each in told[1:4])
    assert told[4].startswith("TypeError: state 'named' is declared as 'long', but was given 1.5 (float): give an int")
    assert (numbers(turn), [each.place for each in turn.rejected]) == ([1], [0, 1, 2, 3, 4])
    assert (key.stored["count"].value, key.stored["named"].named) == ((1,), {("7",): (1,)})
