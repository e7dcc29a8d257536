"""The streams of a test, as they are read."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

from anabranch.systems.embedded.system import EmbeddedSystem
from anabranch.systems.records import RECORD_SCHEMA
from anabranch.testing.streams import EmbeddedStreams

AT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


def test_records_of_any_time_are_read(tmp_path: Path) -> None:
    """Those that Python's datetime can't hold have the first or last time that it can."""
    system = EmbeddedSystem(tmp_path)
    system.create("late", 1)
    rows = [{"value": b"{}", "timestamp": at} for at in (AT, 2**62, -(2**62))]
    with closing(system.appender("late")) as appender:
        appender.append(pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA))
    found = [record["timestamp"] for _, _, record in EmbeddedStreams(tmp_path).records("late")]
    assert found == [AT, datetime.max.replace(tzinfo=UTC), datetime.min.replace(tzinfo=UTC)]
