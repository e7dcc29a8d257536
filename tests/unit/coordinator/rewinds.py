"""A job that is rewound, as tests play it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from anabranch.config import EmbeddedSettings, Settings, SystemsSettings
from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.store import Store
from anabranch.systems.embedded import EmbeddedSystem
from anabranch.systems.records import RECORD_SCHEMA
from anabranch.systems.systems import Systems
from tests.unit.coordinator.helpers import Clock
from tests.unit.coordinator.workers import open_lanes

PARTITIONS = 2


AT = 1_700_000_000_000
"""Unix ms of the first record; each further one is a second later."""


RECORDS = 20


@pytest.fixture
def systems(tmp_path: Path) -> Systems:
    """The stream ``in``, of two partitions with ten records each."""
    embedded = EmbeddedSystem(tmp_path / "streams")
    embedded.create("in", PARTITIONS)
    rows = [{"key": None, "value": b"", "headers": None, "timestamp": (AT + 1000 * n) * 1000} for n in range(RECORDS)]
    for row in rows:
        with embedded.appender("in") as appender:
            appender.append(pa.RecordBatch.from_pylist([row], RECORD_SCHEMA))
    return Systems(Settings(systems=SystemsSettings(embedded=EmbeddedSettings(root=tmp_path / "streams"))))


@pytest.fixture
def coordinator(store: Store, clock: Clock, systems: Systems) -> Coordinator:
    return Coordinator(store, clock=clock, lease=10, grace=2, systems=systems)


def begun(coordinator: Coordinator) -> dict[str, list[int]]:
    return {lane.group: [position.offset for position in lane.starting] for lane in open_lanes(coordinator)}
