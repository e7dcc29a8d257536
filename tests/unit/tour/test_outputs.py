"""The tour's own check finds each kind of mistake that a job could make."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from anabranch.systems.embedded import EmbeddedSystem
from anabranch.systems.records import RECORD_SCHEMA
from anabranch.tour import flights, outputs

Rows = list[dict[str, Any]]
SOME = flights.read().slice(0, 300)


def expected() -> tuple[Rows, Rows]:
    """The outputs of a job that makes no mistake, of some flights."""
    some = SOME.to_pylist()
    late = [
        {"carrier": row["carrier"], "flight": row["flight"], "dest": row["dest"], "at": row["at"].isoformat()}
        for row in some
        if row["dep_delay"] is not None and row["dep_delay"] >= 15
    ]
    for row in late:
        row["at"] = row["at"].replace("+00:00", ".000Z")
    windows: dict[tuple[str, datetime], list[int | None]] = {}
    for row in some:
        windows.setdefault((row["dest"], row["at"].replace(minute=0)), []).append(row["dep_delay"])
    closed = []
    for (dest, hour), delays in windows.items():
        known = [delay for delay in delays if delay is not None]
        mean = {"mean_delay": sum(known) / len(known)} if known else {}
        end = hour + timedelta(hours=1)
        times = {"window_start": f"{hour:%Y-%m-%dT%H:%M:%S}.000Z", "window_end": f"{end:%Y-%m-%dT%H:%M:%S}.000Z"}
        closed.append({"dest": dest, **times, "flights": len(delays), **mean})
    return late, closed


def compared(folder: Path, late: Rows, windows: Rows) -> outputs.Comparison:
    system = EmbeddedSystem(folder)
    for stream, rows in ((outputs.LATE, late), (outputs.WINDOWS, windows)):
        system.create(stream, 2)
        values = [json.dumps(row).encode() for row in rows]
        nothing = [None] * len(rows)
        times = pa.array([0] * len(rows)).cast(RECORD_SCHEMA.field("timestamp").type)
        keys = pa.array(nothing, pa.binary())
        headers = pa.nulls(len(rows), RECORD_SCHEMA.field("headers").type)
        appender = system.appender(stream)
        appender.append(pa.record_batch([keys, pa.array(values, pa.binary()), headers, times], schema=RECORD_SCHEMA))
        appender.close()
    return outputs.compared(system, SOME)


def test_what_is_right(tmp_path: Path) -> None:
    result = compared(tmp_path, *expected())
    assert result.is_right
    assert result.flights == SOME.num_rows
    assert result.late == flights.late(SOME).total() > 0


@pytest.mark.parametrize(
    ("mistake", "field"),
    [
        (lambda late, windows: late.append(late[0]), "late_repeated"),
        (lambda late, windows: late.pop(), "late_wrong"),
        (lambda late, windows: windows.append(windows[0]), "windows_repeated"),
        (lambda late, windows: windows.pop(), "windows_wrong"),
        (lambda late, windows: windows[0].update(flights=99), "windows_wrong"),
        (lambda late, windows: windows[0].update(mean_delay=0.25), "windows_wrong"),
    ],
)
def test_each_mistake_is_found(tmp_path: Path, mistake: Callable[[Rows, Rows], object], field: str) -> None:
    late, windows = expected()
    mistake(late, windows)
    result = compared(tmp_path, late, windows)
    assert not result.is_right
    wrong = {
        name for name in ("late_repeated", "late_wrong", "windows_repeated", "windows_wrong") if getattr(result, name)
    }
    assert wrong == {field}


def test_flights_as_records() -> None:
    batch = flights.records(SOME)
    first = SOME.slice(0, 1).to_pylist()[0]
    assert batch.num_rows == SOME.num_rows
    assert batch.column("key")[0].as_py() == first["tailnum"].encode()
    assert json.loads(batch.column("value")[0].as_py()) == {
        "carrier": first["carrier"],
        "flight": first["flight"],
        "origin": first["origin"],
        "dest": first["dest"],
        "dep_delay": first["dep_delay"],
        "at": "2013-01-01T10:15:00Z",
    }
