"""Which timestamps Kafka's client is given, and what becomes of those that it gives."""

from __future__ import annotations

import pyarrow as pa
import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME

from anabranch.systems.kafka import records, timestamps


@pytest.mark.parametrize(
    ("micros", "millis"),
    [(1_700_000_000_123_456, 1_700_000_000_123), (2_000, 2), (999, 1), (0, 1), (-1, 1), (-86_400_000_000, 1)],
)
def test_times_before_1970_become_the_first_millisecond_that_kafka_has(micros: int, millis: int) -> None:
    times = pa.array([micros], pa.timestamp("us", "UTC"))
    assert timestamps.milliseconds(times).tolist() == [millis]


class Given:
    """A message with a timestamp."""

    def __init__(self, millis: int) -> None:
        self._millis = millis

    def key(self) -> None: ...

    def value(self) -> None: ...

    def headers(self) -> None: ...

    def timestamp(self) -> tuple[int, int]:
        return TIMESTAMP_CREATE_TIME, self._millis


@pytest.mark.parametrize(
    ("millis", "micros"),
    [
        (1_700_000_000_123, 1_700_000_000_123_000),
        (1_700_000_000_123_456, 1_700_000_000_123_456_000),
        (1_700_000_000_123_456_789, 9_223_372_036_854_775_000),
        (2**63 - 1, 9_223_372_036_854_775_000),
        (-(2**63), -9_223_372_036_854_775_000),
    ],
)
def test_a_time_that_is_too_late_becomes_the_last_one(millis: int, micros: int) -> None:
    """Of a producer that writes microseconds or nanoseconds. It doesn't become another time that may be right."""
    batch = records.record_batch([Given(millis)])  # type: ignore[list-item]
    assert batch.column("timestamp").cast(pa.int64()).to_pylist() == [micros]
