"""What a drain emitted early, read from the job's output streams."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from anabranch.config import EmbeddedSettings, OutputSettings, Settings, SystemsSettings
from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.store import Store
from anabranch.coordinator.streams.early_output import MOST, is_marked
from anabranch.errors import ConflictError, NotFoundError, UsageError
from anabranch.model.ssp import SSP
from anabranch.spark.operators.evaluation import DRAINED
from anabranch.systems.contract import System
from anabranch.systems.records import RECORD_SCHEMA
from anabranch.systems.systems import Systems
from tests.unit.coordinator.helpers import FIRST, SECOND, lane, plan

STREAM, OWN = "delays-per-hour", "delays-by-dest"


@pytest.fixture
def embedded(systems: Systems) -> System:
    system = systems.named("embedded")
    system.create(STREAM, 2)
    return system


LANES = (
    lane(FIRST, outputs={OWN: 2, "dead": 1}, dead_letters={"flights": "dead"}),
    lane(SECOND, broadcast=(SSP(system="embedded", stream=OWN, partition=0),), outputs={STREAM: 2}),
)


@pytest.fixture
def coordinator(systems: Systems) -> Iterator[Coordinator]:
    store = Store("sqlite://")
    served = Coordinator(store, systems=systems)
    served.start(plan(lanes=LANES))
    yield served
    store.close()


def put(system: System, *values: dict[str, Any], at: Sequence[int] = ()) -> None:
    """``at``: the rows' timestamps in microseconds, if they matter."""
    rows = [
        {
            "key": str(number % 7).encode(),
            "value": json.dumps(value).encode(),
            "headers": [],
            "timestamp": at[number] if at else datetime.fromtimestamp(1_700_000_000 + number, UTC),
        }
        for number, value in enumerate(values)
    ]
    with closing(system.appender(STREAM)) as appender:
        appender.append(pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA))


def test_only_rows_of_windows_that_were_cut_are_there_newest_first(embedded: System, coordinator: Coordinator) -> None:
    put(embedded, *({"n": at, **({"drained": True} if at % 10 == 3 else {})} for at in range(100)))
    found = coordinator.early_output("delays", limit=4)
    assert (found.stream, found.streams) == (STREAM, (STREAM,))  # neither what the job reads itself nor dead letters
    values = [json.loads(row.value.text) for row in found.rows if row.value is not None and row.value.text]
    assert [value["n"] for value in values] == [93, 83, 73, 63]
    assert (found.total, found.looked_at, found.partly) == (10, 100, False)
    assert {row.partition for row in found.rows} <= {0, 1}


def test_a_row_of_a_time_beyond_all_calendars_hides_no_other(embedded: System, coordinator: Coordinator) -> None:
    put(embedded, {"drained": True}, {"drained": True}, at=[2**62, 1_700_000_000_000_999])
    found = coordinator.early_output("delays")
    assert [row.at for row in found.rows] == [2**62 // 1000, 1_700_000_000_000]


def test_a_table_is_no_stream(embedded: System, tmp_path: Path) -> None:
    bound = {"archive": OutputSettings.model_validate({"to": "parquet", "path": str(tmp_path / "archive")})}
    settings = Settings(systems=SystemsSettings(embedded=EmbeddedSettings(root=tmp_path)), outputs=bound)
    writes = lane(FIRST, outputs={"archive": 1, STREAM: 2}, systems={"archive": "parquet"})
    put(embedded, {"n": 1, "drained": True})
    with closing(Store("sqlite://")) as store:
        served = Coordinator(store, systems=Systems(settings, "delays"))
        served.start(plan(lanes=(writes,)))
        found = served.early_output("delays")
        assert (found.stream, found.streams, found.total) == (STREAM, (STREAM,), 1)
        with pytest.raises(NotFoundError, match="has no output 'archive'"):
            served.early_output("delays", "archive")


@pytest.mark.long
def test_a_long_stream_is_looked_at_from_its_end_and_that_is_said(embedded: System, coordinator: Coordinator) -> None:
    put(embedded, *({"n": at, "drained": at < 5} for at in range(60_000)))
    found = coordinator.early_output("delays")
    assert (found.total, found.looked_at, found.partly) == (0, 40_000, True)


@pytest.mark.parametrize(
    ("value", "marked"),
    [
        (b'{"n": 1, "drained": true}', True),
        (b'{"n": 1, "drained": false}', False),
        (b'{"n": 1, "drained": "true"}', False),
        (b'{"inner": {"drained": true}}', False),
        (b'["drained", true]', False),
        (b'{"drained": true', False),
        (b'{"drained": true, "n": ' + b"[" * 2000, False),
        (b'\xff\x00"drained"', False),
        (None, False),
    ],
)
def test_a_row_is_marked_as_the_job_marks_it(value: bytes | None, marked: bool) -> None:
    assert is_marked(value) is marked
    assert is_marked(json.dumps({DRAINED: True}).encode())


def test_what_can_not_be_read_is_refused(coordinator: Coordinator, embedded: System) -> None:
    with pytest.raises(NotFoundError, match="has no output 'other'"):
        coordinator.early_output("delays", stream="other")
    with pytest.raises(UsageError, match="ask for 1 to"):
        coordinator.early_output("delays", limit=MOST + 1)
    with pytest.raises(NotFoundError):
        coordinator.early_output("nobody")
    elsewhere = Coordinator(coordinator.registry.store)
    with pytest.raises(ConflictError, match="its settings aren't here"):
        elsewhere.early_output("delays")


class Slow(Systems):
    """Systems that are asked, and answer when they are let go."""

    asked, answers = threading.Event(), threading.Event()

    def named(self, name: str) -> System:
        self.asked.set()
        assert self.answers.wait(30)
        return super().named(name)


def test_one_reads_at_a_time(tmp_path: Path, embedded: System) -> None:
    put(embedded, {"n": 1, "drained": True})
    settings = Settings(systems=SystemsSettings(embedded=EmbeddedSettings(root=tmp_path)))
    coordinator = Coordinator(Store("sqlite://"), systems=Slow(settings, "delays"))
    coordinator.start(plan(lanes=LANES))
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(coordinator.early_output, "delays")
        assert Slow.asked.wait(30)
        with pytest.raises(ConflictError, match="somebody else"):
            coordinator.early_output("delays")
        Slow.answers.set()
        assert first.result(30).total == 1
    assert coordinator.early_output("delays").total == 1
