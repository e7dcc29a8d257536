"""The timestamps of records, of which a producer can write any."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from anabranch.systems import records
from anabranch.systems.records import RECORD_SCHEMA

FIRST, LAST = -62_135_596_800_000_000, 253_402_300_799_999_999
MOST = 2**63 - 1


@pytest.mark.parametrize(
    ("micros", "text", "nearest"),
    [
        (0, "1970-01-01T00:00:00.000000+00:00", datetime(1970, 1, 1, tzinfo=UTC)),
        (-1, "1969-12-31T23:59:59.999999+00:00", datetime(1970, 1, 1, tzinfo=UTC) - timedelta(microseconds=1)),
        (FIRST, "0001-01-01T00:00:00.000000+00:00", datetime.min.replace(tzinfo=UTC)),
        (FIRST - 1, str(FIRST - 1), datetime.min.replace(tzinfo=UTC)),
        (LAST, "9999-12-31T23:59:59.999999+00:00", datetime.max.replace(tzinfo=UTC)),
        (LAST + 1, str(LAST + 1), datetime.max.replace(tzinfo=UTC)),
        (-MOST - 1, str(-MOST - 1), datetime.min.replace(tzinfo=UTC)),
        (MOST, str(MOST), datetime.max.replace(tzinfo=UTC)),
    ],
)
def test_any_timestamp_is_read_and_shown(micros: int, text: str, nearest: datetime) -> None:
    row = {"key": b"k", "value": None, "headers": [{"key": "a", "value": b"1"}], "timestamp": micros}
    batch = pa.RecordBatch.from_pylist([row], schema=RECORD_SCHEMA)
    assert records.to_dicts(batch) == [row]
    assert records.iso_text(micros) == text
    assert records.nearest_datetime(micros) == nearest
