"""Warms up a Spark session: a small job runs in it and is discarded."""

from __future__ import annotations

import os
import tempfile
import threading
import uuid
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from anabranch import scratch
from anabranch.api.job import Job
from anabranch.config import Settings, sqlite_urls
from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.store.store import Store
from anabranch.errors import JobFailedError
from anabranch.event_time.windows import tumbling
from anabranch.launch import outputs, preparation
from anabranch.launch.loading import JobFile
from anabranch.launch.preparation import Prepared
from anabranch.protocol.container import Heartbeat, HeartbeatResponse, Registration
from anabranch.systems.embedded import EmbeddedSystem
from anabranch.systems.records import RECORD_SCHEMA

__all__ = ["warm"]

_JOB, _INPUT = "warming", "readings"
_ROWS, _BATCHES = 200, 2


def warm(spark: Any, leaving: threading.Event) -> None:
    """Run some batches of a job with event time, state and two stages.

    Afterwards, Java and Python have loaded and compiled the code that a process's first lanes need. The job's streams,
    store and lanes are in a temporary folder.

    Args:
        leaving: if this is set, the job ends as soon as each lane that has started has run its first batch.
    """
    from anabranch.container.reconciler import Container

    with tempfile.TemporaryDirectory(dir=scratch.folder("warming"), ignore_cleanup_errors=True) as made:
        file, settings = _file(Path(made)), _settings(Path(made))
        _put(EmbeddedSystem(settings.systems.embedded.root))
        plan = preparation.plan(file, settings)
        outputs.create(plan, settings)
        prepared = Prepared(file, settings, plan, preparation.resolved(file, {}, settings), {})
        with closing(Store(settings.coordinator.store)) as store:
            coordinator = Coordinator(store)
            coordinator.start(preparation.start_message(prepared, until_caught_up=False))
            until = _Until(coordinator, len(plan.lanes), leaving)
            container = Container(prepared.loaded(spark), until)
            container.run(_registration(), until.reached)
            if not until.reached.is_set():
                raise JobFailedError(f"job {_JOB} failed: {coordinator.status(_JOB).error}")


class _Until:
    """Passes heartbeats on to the coordinator, and sets ``reached`` when all lanes have run ``_BATCHES`` batches. If
    ``leaving`` is set, ``reached`` is set as soon as each lane that has started has run its first batch.

    (A query that is stopped before its first batch has ended leaves processes behind. These processes wait for
    connections to Spark, and log errors.)
    """

    def __init__(self, coordinator: Coordinator, lanes: int, leaving: threading.Event) -> None:
        self.reached = threading.Event()
        self.register = coordinator.register
        self._coordinator = coordinator
        self._lanes = lanes
        self._leaving = leaving

    def heartbeat(self, beat: Heartbeat, wait: float = 0) -> HeartbeatResponse:
        leaves = self._leaving.is_set()
        done = [lane for lane in beat.lanes if lane.progress.batch >= (0 if leaves else _BATCHES - 1)]
        if len(done) == (len(beat.lanes) if leaves else self._lanes):
            self.reached.set()
        return self._coordinator.heartbeat(beat, wait)


def _file(folder: Path) -> JobFile:
    job = Job(_JOB)
    schema = "place string, number int, at timestamp"
    readings = job.read(_INPUT, key="device string", schema=schema, event_time="at", watermark="1 minute")
    readings.where("number >= 10").write("large")
    by_minute = readings.partition_by("place").window(tumbling("1 minute"))
    by_minute.agg(readings="count(*)", mean="avg(number)", emit="on_close").write("by-minute")
    return JobFile(folder / "job.py", job.graph, {})


def _settings(folder: Path) -> Settings:
    """The settings of the warm-up job, independent of files and the environment."""
    return Settings.model_validate(
        {
            "job": {
                "state_partitions": 2,
                "max_rows_per_batch": _ROWS // _BATCHES,
                "target_batch_seconds": 0,
                "attempts": 1,
            },
            "storage": {"root": str(folder / "lanes")},
            "coordinator": {"store": sqlite_urls.url_of(folder / "coordinator.db")},
            "systems": {"default": "embedded", "embedded": {"root": folder / "streams"}},
        }
    )


def _put(system: EmbeddedSystem) -> None:
    system.create(_INPUT, partitions=2)
    with closing(system.appender(_INPUT)) as appender:
        appender.append(pa.RecordBatch.from_pylist([_reading(number) for number in range(_ROWS)], RECORD_SCHEMA))


def _reading(number: int) -> dict[str, Any]:
    at = datetime(2000, 1, 1, tzinfo=UTC) + timedelta(seconds=number)
    value = msgspec.json.encode({"place": f"P{number % 7}", "number": number, "at": at})
    return {"key": b"D%d" % (number % 20), "value": value, "headers": None, "timestamp": at}


def _registration() -> Registration:
    return Registration(job=_JOB, seat="0", execution=uuid.uuid4().hex, host="localhost", pid=os.getpid())
