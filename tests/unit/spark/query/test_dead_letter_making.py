"""Making a dead letter never raises, whatever the record, the row and the exception are; and no record is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, cast

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.spark.functions import wrap
from anabranch.spark.functions.calling import Evaluator, UserFunction
from anabranch.spark.query import dead_letter_sizes, dead_letters
from anabranch.spark.query.dead_letters import STATE, Rejected, WorkerDeadLetters
from anabranch.spark.values import meta_column
from anabranch.systems.records import RECORD_SCHEMA

SCHEMA = pa.schema([("n", pa.int64()), ("value", pa.binary())])
BIG = 50 * 2**20


class Said:
    """What the driver hears of a task."""

    def __init__(self) -> None:
        self.value: list[Any] = []

    def add(self, several: list[Any]) -> None:
        self.value += several


class Mute(Exception):
    def __str__(self) -> NoReturn:
        raise SystemExit

    __repr__ = __str__
    __reduce__ = __str__


def again(n: int) -> int:
    return again(n + 1) + 1


def stop(_: Any) -> NoReturn:
    raise StopIteration


def thrown(make: Callable[[bytes], BaseException]) -> Callable[[bytes], Any]:
    def throw(value: bytes) -> NoReturn:
        raise make(value)

    return throw


class Odd:
    def __repr__(self) -> NoReturn:
        raise KeyboardInterrupt

    __str__ = __repr__
    __eq__ = __repr__  # type: ignore[assignment]
    __hash__ = None  # type: ignore[assignment]


WAYS: list[Callable[[bytes], Any]] = [
    thrown(ValueError),
    thrown(lambda value: ValueError(value.decode("utf-8", "surrogateescape"))),
    thrown(lambda value: KeyError(value, Odd())),
    thrown(Mute),
    thrown(SystemExit),
    thrown(lambda _: KeyboardInterrupt()),
    thrown(lambda _: GeneratorExit()),
    thrown(lambda _: MemoryError()),
    thrown(lambda _: asyncio.CancelledError()),
    thrown(StopIteration),
    thrown(lambda value: ExceptionGroup("g", [ValueError(value), Mute(value)])),
    thrown(lambda value: BaseExceptionGroup("g", [SystemExit(value)])),
    thrown(lambda value: UnicodeDecodeError("utf-8", value or b"x", 0, 1, "\ud800")),
    lambda _: again(0),
    lambda _: next(stop(0)),
    lambda value: value.decode("utf-8"),
    lambda _: Odd(),
    lambda _: asyncio.sleep(0),
    lambda value: {"n": value},
    lambda value: {"value": Odd()},
    lambda value: {value: 1},
    lambda _: {"n": float("nan")},
    lambda _: None,
]
GOOD = len(WAYS)


def way(number: int) -> Callable[[bytes], Any]:
    return WAYS[number] if number < GOOD else lambda value: {"n": number, "value": value}


def origins(count: int, source: int = 0, first: int = 0) -> pa.Array:
    kind = pa.struct(
        {"task": pa.int32(), "source": pa.int32(), "partition": pa.int32(), "offset": pa.int64(), "key": pa.binary()}
    )
    offsets = range(first, first + count)
    rows = [{"task": 0, "source": source, "partition": 0, "offset": offset, "key": b"\xff"} for offset in offsets]
    return pa.array(rows, kind)


def aside(said: Said) -> WorkerDeadLetters:
    return WorkerDeadLetters("job", {0: "in"}, {}, {}, {}, (), cast(Any, said), gathers=True)


def letters(said: Said, values: list[bytes | None]) -> Iterator[pa.RecordBatch]:
    """The dead letters that the driver has written, of records with these values."""
    for each in dead_letters.gathered(aside(said), said.value):
        told = msgspec.msgpack.decode(msgspec.msgpack.encode(each), type=Rejected)
        with aside(Said()).rejects(told.operator, keep=True) as rejects:
            offsets = np.array(sorted(told.errors), np.int64)
            batch = pa.RecordBatch.from_pylist(
                [{"key": None, "value": values[offset], "headers": None, "timestamp": None} for offset in offsets],
                schema=RECORD_SCHEMA,
            )
            if told.errors:
                yield from rejects.letters_of(iter([(offsets, batch)]), "in", 0, told.errors)
            if told.derived:
                yield rejects.derived_letters(told.derived)


@pytest.mark.filterwarnings("ignore:coroutine 'sleep' was never awaited")
@settings(max_examples=300)
@given(
    st.lists(st.tuples(st.binary(max_size=30) | st.none(), st.integers(0, GOOD + 5)), max_size=12),
    st.sampled_from(["map", "flat_map", "filter", "map_arrow"]),
    st.booleans(),
    st.booleans(),
)
def test_records_in_are_records_out_and_dead_letters(
    records: list[tuple[bytes | None, int]], kind: str, derived: bool, awaits: bool
) -> None:
    def function(given: Any) -> Any:
        if kind == "map_arrow":
            for row in given.to_pylist():
                made = way(records[row["n"]][1])(row["value"] or b"")
                if not isinstance(made, dict) or type(made.get("n")) is not int:
                    raise ValueError(made)
            return given
        made = way(records[given["n"]][1])(given["value"] or b"")
        if made is None:
            raise ValueError
        if kind == "filter":
            return bool(made["n"]) if isinstance(made, dict) and type(made.get("n")) is int else made
        return made if kind == "map" else [made]

    async def later(given: Any) -> Any:
        return function(given)

    user = UserFunction(kind, later if awaits and kind != "map_arrow" else function, SCHEMA, __file__)
    values = [value for value, _ in records]
    rows = pa.RecordBatch.from_pylist([{"n": n, "value": value} for n, value in enumerate(values)], schema=SCHEMA)
    outcome = asyncio.run(Evaluator(user)(rows, lambda _: None)) if records else None
    if outcome is None:
        return
    said = Said()
    rejects = aside(said).rejects("f", keep=True)
    origin = origins(len(records), STATE if derived else 0, 0)
    for each in outcome.rejected:
        rejects.add(wrap.origin_of(origin, each.place), each.error, rows.slice(each.place, 1))
    rejects.close()
    lost = [each.place for each in outcome.rejected]
    assert sorted([*outcome.places.tolist(), *lost]) == list(range(len(records)))
    found = pa.Table.from_batches(letters(said, values), RECORD_SCHEMA).to_pylist()
    assert len(found) == len(lost)
    if not derived:
        assert [each["value"] for each in found] == [values[place] for place in sorted(lost)]
    for letter in found:
        ours = {header["key"]: header["value"].decode() for header in letter["headers"]}
        assert 0 < len(ours["anabranch.error"]) <= 2000


@pytest.mark.long
def test_messages_of_50_mb() -> None:
    """Their error may be as long, and so may the row that stands for one that comes of no record."""

    def function(message: dict[str, Any]) -> NoReturn:
        raise ValueError(message["value"])

    rows = pa.RecordBatch.from_pylist([{"n": 0, "value": b"\xff" * BIG}], schema=SCHEMA)
    (rejection,) = asyncio.run(Evaluator(UserFunction("map", function, SCHEMA, ""))(rows, lambda _: None)).rejected
    assert len(rejection.error) <= 2000
    for source in (0, STATE):
        said = Said()
        rejects = aside(said).rejects("f", keep=True)
        rejects.add(wrap.origin_of(origins(1, source), 0), rejection.error, rows)
        rejects.close()
        (letter,) = letters(said, [b"\xff" * BIG])
        assert letter.nbytes > BIG


_headers = st.lists(st.tuples(st.text(max_size=8), st.binary(max_size=400) | st.none()), max_size=3)
_part = st.binary(max_size=900) | st.none()


@given(st.lists(st.tuples(_part, _part, _headers), max_size=4))
def test_a_dead_letter_fits_into_its_stream(records: list[tuple[Any, Any, Any]]) -> None:
    """Whatever of the record is too large; our own headers always have room."""
    ours = [("anabranch.error", b"x" * 100), ("anabranch.offset", b"7")]
    rows = [
        {
            "key": key,
            "value": value,
            "headers": [{"key": name, "value": each} for name, each in [*headers, *ours]],
            "timestamp": None,
        }
        for key, value, headers in records
    ]
    batch = pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA)
    (cut,) = dead_letter_sizes.fitting([batch], 1000)
    assert dead_letter_sizes.sizes_of(cut).max(initial=0) <= 1000
    for before, after in zip(batch.to_pylist(), cut.to_pylist(), strict=True):
        told = {header["key"]: header["value"] for header in after["headers"]}
        assert told["anabranch.error"] == b"x" * 100
        if before != after:
            size = len(before["value"] or b"")
            assert told["anabranch.cut"] == f"the value had {size} bytes; the whole record is where it was".encode()
            assert (before["value"] or b"").startswith(after["value"] or b"")
            assert (before["value"] is None) == (after["value"] is None)
    assert list(dead_letter_sizes.fitting([batch], 10**6)) == [batch]


def test_a_dead_letter_that_is_rejected_again_has_no_more_headers() -> None:
    """But its own: the former ones are where it was read."""
    rejects = aside(Said()).rejects("f", keep=True)
    row: dict[str, Any] = {"key": None, "value": b"x", "headers": [{"key": "mine", "value": b"1"}], "timestamp": None}
    for time in range(3):
        batch = pa.RecordBatch.from_pylist([row], schema=RECORD_SCHEMA)
        (letter,) = rejects.letters_of(iter([(np.array([7]), batch)]), "in", 0, {7: f"time {time}"})
        row = letter.to_pylist()[0]
    assert [header["key"] for header in row["headers"]].count("anabranch.error") == 1
    assert {header["key"]: header["value"] for header in row["headers"]} == {
        "mine": b"1",
        "anabranch.error": b"time 2",
        "anabranch.operator": b"f",
        "anabranch.stream": b"in",
        "anabranch.partition": b"0",
        "anabranch.offset": b"7",
        "anabranch.job": b"job",
    }


def test_the_hidden_column_may_hold_times_that_python_has_not() -> None:
    at = pa.array([2**62], pa.timestamp("us", "UTC"))
    columns = [*origins(1).flatten(), at]
    names = ["task", "source", "partition", "offset", "key", "timestamp"]
    origin = pa.StructArray.from_arrays(columns, names)
    assert wrap.origin_of(origin, 0)["offset"] == 0
    row = pa.RecordBatch.from_arrays([at], names=["at"])
    said = Said()
    rejects = aside(said).rejects("f", keep=True)
    rejects.add({"source": STATE, "partition": 0, "offset": 0, "key": None}, "late", row)
    rejects.close()
    assert said.value
    assert meta_column.NAME not in row.schema.names
