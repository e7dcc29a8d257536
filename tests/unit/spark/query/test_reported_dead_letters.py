"""What the driver hears from several Spark tasks about the records of one slot: each record that they reject is there,
and a Spark task that is repeated counts once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
from pyspark import TaskContext

from anabranch.spark.query import dead_letters
from anabranch.spark.query.dead_letters import STATE, Letters, WorkerDeadLetters
from anabranch.systems.contract import Range, Records
from anabranch.systems.output import Numbers, Target, Written
from anabranch.systems.records import RECORD_SCHEMA

F = "map 'f'"
Origin = dict[str, Any]
Row = dict[str, Any]


class Said:
    """What the driver hears of Spark tasks."""

    def __init__(self) -> None:
        self.value: list[Any] = []

    def add(self, several: list[Any]) -> None:
        self.value += several


class Stream:
    """A system in which the value of each record is its offset."""

    name = "embedded"

    def read(self, _stream: str, _partition: int, ranges: Sequence[Range]) -> Iterator[Records]:
        for first, end in ranges:
            rows = [
                {"key": None, "value": str(offset).encode(), "headers": None, "timestamp": None}
                for offset in range(first, end)
            ]
            yield np.arange(first, end), pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA)


@dataclass
class Output:
    """Keeps what is written. If it is ``slotted``, a slot can be written only once, as on Kafka."""

    slotted: bool = False
    done: dict[bytes, list[bytes]] = field(default_factory=dict)
    slots: set[int] = field(default_factory=set)

    def writer(self, _task: int, _batch: int) -> Writer:
        return Writer(self)

    def limit(self, _stream: str) -> float:
        return float("inf")


@dataclass
class Writer:
    output: Output
    values: list[bytes] = field(default_factory=list)
    slots: set[int] = field(default_factory=set)

    def write(self, _target: Target, slot: int, _partitions: Numbers, records: pa.RecordBatch) -> None:
        if slot not in self.output.slots:
            self.slots.add(slot)
            self.values += records.column("value").to_pylist()

    def close(self) -> list[Written]:
        if self.output.slotted:
            self.output.slots |= self.slots
        ref = str(len(self.output.done)).encode()
        self.output.done[ref] = self.values
        return [Written(stream="in-dead-letters", partition=0, slot=0, rows=len(self.values), ref=ref)]

    def abort(self) -> None: ...


@dataclass
class Driver:
    """The driver of a lane with the operator ``f``, which reads the stream ``in`` as the sources 0 and 7."""

    patch: pytest.MonkeyPatch
    slotted: bool = False
    gathers: bool = False
    said: Said = field(default_factory=Said)

    def __post_init__(self) -> None:
        self.output = Output(self.slotted)
        self.aside = WorkerDeadLetters(
            "job",
            {0: "in", 7: "in"},
            cast(Any, {"in": Stream()}),
            {"in": Letters(Target("in-dead-letters", 1), self.output)},
            {F: "f"},
            ("embedded/in/0", "f:embedded/in/0", "f:state-0"),
            cast(Any, self.said),
            self.gathers,
        )

    def task(self, number: int, *rows: tuple[Origin, Row]) -> None:
        """Run a Spark task that rejects these rows."""
        context = SimpleNamespace(partitionId=lambda: number, getLocalProperty=lambda _: None)
        self.patch.setattr(TaskContext, "get", lambda: context)
        with self.aside.rejects(F, keep=True) as rejects:
            for origin, row in rows:
                rejects.add(origin, f"no, said to task {number}", row)

    def letters(self) -> list[bytes]:
        """The values of the dead letters that the driver publishes, sorted."""
        if self.gathers:
            return sorted(row[2] for each in dead_letters.gathered(self.aside, self.said.value) for row in each.derived)
        heard = dead_letters.heard(self.aside)
        return sorted(value for each in heard.written for value in self.output.done[each.ref])


def of_record(offset: int) -> tuple[Origin, Row]:
    return {"source": 0, "partition": 0, "offset": offset, "key": None}, {}


def of_none(offset: int, n: int, source: int = 0) -> tuple[Origin, Row]:
    """A row that a ``map_arrow`` has made from several records."""
    return {"source": source, "partition": 0, "offset": offset, "key": b"k"}, {"n": n}


def values(*numbers: int) -> list[bytes]:
    return sorted(b'{"n": %d}' % n for n in numbers)


def test_two_spark_tasks_with_rows_of_the_same_first_record_lose_none_of_their_other_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As after a ``flat_map`` and a shuffle."""
    driver = Driver(monkeypatch)
    driver.task(0, of_record(5), of_record(7))
    driver.task(1, of_record(5), of_record(9))
    assert {*driver.letters()} == {b"5", b"7", b"9"}


def test_a_record_that_two_spark_tasks_reject_alone_is_one_dead_letter(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver(monkeypatch)
    driver.task(0, of_record(5))
    driver.task(1, of_record(5))
    assert driver.letters() == [b"5"]


@pytest.mark.parametrize("gathers", [False, True])
def test_spark_tasks_lose_no_rows_that_have_the_same_offset(monkeypatch: pytest.MonkeyPatch, gathers: bool) -> None:
    """As after a ``map_arrow`` that returns more rows than it was given: the surplus rows have the same offset."""
    driver = Driver(monkeypatch, gathers=gathers)
    driver.task(0, of_none(-6, 1), of_none(-6, 2))
    driver.task(1, of_none(-6, 3))
    assert driver.letters() == values(1, 2, 3)


@pytest.mark.parametrize("gathers", [False, True])
def test_equal_rows_are_dead_letters_of_their_own(monkeypatch: pytest.MonkeyPatch, gathers: bool) -> None:
    """In one Spark task or in two, and from two reads of one stream."""
    driver = Driver(monkeypatch, gathers=gathers)
    driver.task(0, of_none(-6, 1), of_none(-6, 1), of_none(-6, 1, source=7))
    driver.task(1, of_none(-6, 1))
    assert driver.letters() == values(1, 1, 1, 1)


@pytest.mark.parametrize("gathers", [False, True])
def test_rows_of_one_spark_task_in_two_places_of_a_plan_are_not_lost(
    monkeypatch: pytest.MonkeyPatch, gathers: bool
) -> None:
    """As rows with a null key before a ``process``, and rows on which it fails: the numbers of Spark tasks are used
    again in each Spark stage.
    """
    driver = Driver(monkeypatch, gathers=gathers)
    driver.task(0, of_none(-6, 1))
    driver.task(0, of_none(-6, 2))
    assert driver.letters() == values(1, 2)


@pytest.mark.parametrize("gathers", [False, True])
def test_a_repeated_spark_task_counts_once(monkeypatch: pytest.MonkeyPatch, gathers: bool) -> None:
    """Even if the rows come in another order."""
    driver = Driver(monkeypatch, gathers=gathers)
    state = {"source": STATE, "partition": 0, "offset": 0, "key": None}, {"n": 3}
    for rows in ([of_none(-6, 1), of_none(-7, 2)], [of_none(-7, 2), of_none(-6, 1)]):
        driver.task(0, *rows)
        driver.task(1, state)
    assert driver.letters() == values(1, 2, 3)


def test_a_repeated_spark_task_that_rejects_records_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver(monkeypatch)
    for _ in range(2):
        driver.task(0, of_record(5), of_record(7))
        driver.task(1, of_record(8))
    assert driver.letters() == [b"5", b"7", b"8"]


def test_a_slot_gets_records_and_rows_of_no_single_record_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """On Kafka, the second transaction of a slot in one batch would write nothing."""
    driver = Driver(monkeypatch, slotted=True)
    driver.task(0, of_record(5), of_none(-7, 1))
    assert driver.letters() == [b"5", *values(1)]
