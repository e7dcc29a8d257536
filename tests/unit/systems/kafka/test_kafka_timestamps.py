"""Which timestamps Kafka's client is given."""

from __future__ import annotations

import pyarrow as pa
import pytest

from anabranch.systems.kafka import timestamps


@pytest.mark.parametrize(
    ("micros", "millis"),
    [(1_700_000_000_123_456, 1_700_000_000_123), (2_000, 2), (999, 1), (0, 1), (-1, 1), (-86_400_000_000, 1)],
)
def test_times_before_1970_become_the_first_millisecond_that_kafka_has(micros: int, millis: int) -> None:
    times = pa.array([micros], pa.timestamp("us", "UTC"))
    assert timestamps.milliseconds(times).tolist() == [millis]
