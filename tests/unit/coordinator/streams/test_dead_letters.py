"""The newest dead letters of a job, read from its stream: what they say, and where earlier ones are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.store import Store
from anabranch.coordinator.streams.dead_letters import MOST
from anabranch.errors import NotFoundError, UsageError
from anabranch.systems.contract import System
from anabranch.systems.records import RECORD_SCHEMA
from anabranch.systems.systems import Systems
from tests.unit.coordinator.helpers import FIRST, lane, plan

STREAM = "flights-dead-letters"


def row(number: int, key: bytes | None = None, value: bytes | None = b"{}", **said: str) -> dict[str, Any]:
    given = {"error": f"ValueError: {number}", "operator": "map", "stream": "flights", "partition": "3", "offset": "9"}
    headers = [{"key": f"anabranch.{name}", "value": text.encode()} for name, text in {**given, **said}.items()]
    at = datetime.fromtimestamp(1_700_000_000 + number, UTC)
    return {"key": key, "value": value, "headers": [{"key": "trace", "value": b"t1"}, *headers], "timestamp": at}


@pytest.fixture
def embedded(systems: Systems) -> System:
    system = systems.named("embedded")
    system.create(STREAM, 2)
    return system


@pytest.fixture
def coordinator(systems: Systems) -> Iterator[Coordinator]:
    store = Store("sqlite://")
    served = Coordinator(store, systems=systems)
    served.start(plan(lanes=(lane(FIRST, dead_letters={"flights": STREAM}),)))
    yield served
    store.close()


def put(system: System, *rows: dict[str, Any]) -> None:
    with closing(system.appender(STREAM)) as appender:
        appender.append(pa.RecordBatch.from_pylist(list(rows), schema=RECORD_SCHEMA))


def test_a_letter_says_what_happened_to_which_record(embedded: System, coordinator: Coordinator) -> None:
    put(embedded, row(1, b"EWR", b'{"n": "x"}'))
    found = coordinator.dead_letters("delays")
    assert (found.stream, found.streams) == (STREAM, (STREAM,))
    (only,) = found.letters
    assert (only.error, only.operator, only.at) == ("ValueError: 1", "map", 1_700_000_001_000)
    assert only.origin is not None
    assert (only.origin.stream, only.origin.partition, only.origin.offset) == ("flights", 3, 9)
    assert only.key is not None
    assert only.value is not None
    assert (only.key.text, only.value.text, only.value.bytes) == ("EWR", '{"n": "x"}', 10)
    assert only.headers == {"trace": "t1"}
    assert (found.before, found.partly) == ({}, False)


def test_the_newest_come_first_and_earlier_ones_by_partition(embedded: System, coordinator: Coordinator) -> None:
    put(embedded, *(row(number, str(number).encode()) for number in range(700)))
    seen: list[str] = []
    found = coordinator.dead_letters("delays", limit=100)
    assert [each.error for each in found.letters] == [f"ValueError: {699 - at}" for at in range(100)]
    seen += [each.error for each in found.letters]
    for partition, first in found.before.items():
        before = first
        while before:
            page = coordinator.dead_letters("delays", partition=partition, before=before, limit=100)
            seen += [each.error for each in page.letters]
            before = page.before.get(partition, 0)
    assert sorted(seen) == sorted(f"ValueError: {number}" for number in range(700))


@pytest.mark.parametrize(
    ("value", "text", "base64", "cut"),
    [
        (None, None, None, False),
        (b"\xff\x00", None, "/wA=", False),
        ("é".encode() * 3_000, "é" * 2_048, None, True),
        (b"a" + "é".encode() * 3_000, "a" + "é" * 2_047, None, True),
        (b"", "", None, False),
    ],
)
def test_what_is_in_it_is_text_or_bytes_and_bounded(
    embedded: System, coordinator: Coordinator, value: bytes | None, text: str | None, base64: str | None, cut: bool
) -> None:
    put(embedded, row(1, None, value))
    (only,) = coordinator.dead_letters("delays").letters
    assert only.key is None
    if value is None:
        assert only.value is None
        return
    assert only.value is not None
    assert (only.value.text, only.value.base64, only.value.cut) == (text, base64, cut)
    assert only.value.bytes == len(value)


def test_a_letter_of_a_time_beyond_all_calendars_hides_no_other(embedded: System, coordinator: Coordinator) -> None:
    """Of a producer that writes microseconds where Kafka wants milliseconds."""
    put(embedded, row(1), row(2) | {"timestamp": 1_700_000_002_000_000_999}, row(3) | {"timestamp": -(2**62)})
    letters = coordinator.dead_letters("delays").letters
    assert [(each.error, each.at) for each in letters] == [
        ("ValueError: 2", 1_700_000_002_000_000),
        ("ValueError: 1", 1_700_000_001_000),
        ("ValueError: 3", -4_611_686_018_427_388),
    ]


def test_another_programs_headers_are_no_origin(embedded: System, coordinator: Coordinator) -> None:
    put(embedded, row(1, offset="-1"), row(2, partition="x"))
    assert [each.origin for each in coordinator.dead_letters("delays").letters] == [None, None]


def test_what_cannot_be_asked_for_is_refused(embedded: System, coordinator: Coordinator) -> None:
    for wrong in ({"limit": 0}, {"limit": MOST + 1}, {"partition": "first"}, {"before": 7}):
        with pytest.raises(UsageError):
            coordinator.dead_letters("delays", **wrong)  # type: ignore[arg-type]
    with pytest.raises(NotFoundError, match="no dead letters in 'flights'"):
        coordinator.dead_letters("delays", stream="flights")
    with pytest.raises(NotFoundError, match="no partition 2"):
        coordinator.dead_letters("delays", partition="2")
    with pytest.raises(NotFoundError, match="there is no job"):
        coordinator.dead_letters("nothing")


def test_a_job_without_any_says_so(systems: Systems) -> None:
    store = Store("sqlite://")
    served = Coordinator(store, systems=systems)
    served.start(plan(lanes=(lane(FIRST),)))
    found = served.dead_letters("delays")
    assert (found.stream, found.streams, found.letters) == ("", (), ())
    store.close()


def test_reading_ends_when_there_is_too_much(embedded: System, coordinator: Coordinator) -> None:
    """What was read so far is shown, and it is said that there is more."""
    put(embedded, *(row(number, str(number).encode(), b"x" * 4_000) for number in range(1_500)))
    found = coordinator.dead_letters("delays", limit=1_000)
    assert found.partly
    assert 400 < len(found.letters) < 1_000
    assert set(found.before) == {"0", "1"}
