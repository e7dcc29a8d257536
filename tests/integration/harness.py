"""Runs jobs in this process on an embedded log of their own, or on a broker: put records in, run to idle, look at what
came out."""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from anabranch import Job
from anabranch.config import (
    EmbeddedSettings,
    JobSettings,
    KafkaSettings,
    Settings,
    StorageSettings,
    StreamSettings,
    SystemsSettings,
)
from anabranch.container import batch_size_store
from anabranch.container.checkpoint.folder import Folder
from anabranch.container.checkpoint.lane_folders import LaneFolders
from anabranch.container.lane.attempt import Build, Offsets
from anabranch.container.lane.runner import LaneRunner
from anabranch.container.retries import Standstill
from anabranch.formats import Format
from anabranch.grouping import groupers
from anabranch.launch import loading, outputs, preparation
from anabranch.model.lane import Lane
from anabranch.model.ssp import SSP
from anabranch.operators.rules import is_boundary
from anabranch.planning import plan as planning
from anabranch.planning import stages
from anabranch.planning.plan import Plan, Surroundings
from anabranch.planning.real_time import RealTime
from anabranch.protocol.lane_report import LaneReport
from anabranch.spark.query import resolution
from anabranch.spark.query.plan import LoadedJob
from anabranch.spark.query.query import LaneQuery
from anabranch.spark.session import session
from anabranch.systems.contract import System
from anabranch.systems.embedded import EmbeddedSystem, LaneWriter, Log, SegmentWriter
from anabranch.systems.kafka import clients
from anabranch.systems.records import RECORD_SCHEMA
from anabranch.systems.systems import Systems

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
PATIENCE = 200.0

Record = dict[str, Any]


class Site:
    """A log, a storage root and settings. ``settings`` of the job section may be given to each run."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self.spark = spark
        self.root = root
        self.log = Log(root / "log")
        (root / "clocks").mkdir()
        self.lanes = str(root / "lanes")
        self.system: System = EmbeddedSystem(root / "log")
        self.lane_folders = LaneFolders(spark, str(root / "lanes"), root / "clocks", Systems(self.settings()))

    def settings(self, formats: Mapping[str, Any] | None = None, **job: Any) -> Settings:
        return Settings(
            job=JobSettings(
                **{"state_partitions": 2, "on_error": "fail", "on_null_key": "fail", "target_batch_seconds": 0, **job}
            ),
            storage=StorageSettings(root=self.lanes),
            systems=SystemsSettings(embedded=EmbeddedSettings(root=self.root / "log")),
            streams={stream: StreamSettings(format=format_) for stream, format_ in (formats or {}).items()},
        )

    def put(self, stream: str, partition: int, rows: Sequence[Any], keys: Sequence[bytes | None] | None = None) -> None:
        """Append records: dicts are written as JSON; bytes and None as they are."""
        values = [json.dumps(row).encode() if isinstance(row, dict) else row for row in rows]
        records = [
            {"key": key, "value": value, "headers": None, "timestamp": AT}
            for key, value in zip(keys or [None] * len(values), values, strict=True)
        ]
        segment = SegmentWriter(self.log.root, stream, partition, slot=0)
        segment.write(pa.RecordBatch.from_pylist(records, schema=RECORD_SCHEMA))
        writer = LaneWriter(self.log, "stream-put", uuid.uuid4().hex, epoch=1)
        assert writer.publish(stream, partition, 0, [segment.close()])

    def records(self, stream: str, partition: int) -> list[Record]:
        """All records of a partition, in order."""
        first, end = self.system.starts(stream)[partition], self.system.high_watermarks(stream)[partition]
        found = self.system.read(stream, partition, [(first, end)]) if end > first else ()
        return [record for _, batch in found for record in batch.to_pylist()]

    def all_records(self, stream: str) -> list[Record]:
        """All records of a stream, partition after partition."""
        return [r for p in range(self.system.partitions(stream)) for r in self.records(stream, p)]

    def values(self, stream: str) -> list[Any]:
        """All values of a stream, parsed, partition after partition."""
        return [json.loads(record["value"]) for record in self.all_records(stream)]

    def deployed(
        self, job: Job, settings: Settings | None = None, create: bool = True, **job_settings: Any
    ) -> Deployed:
        """Plan a job, resolve its schemas and create its outputs. Raises GraphError as ``anabranch run`` does."""
        settings = settings or self.settings(**job_settings)
        systems = Systems(settings, job.name)
        graph = job.graph
        session.carry(job.functions)
        formats = preparation.formats(loading.of(job), settings, register=True)
        home = str(Path(__file__).parent)
        schemas = resolution.columns(graph, job.functions, formats, home, settings.outputs)
        plan = planning.make(
            graph,
            Surroundings(
                factor=settings.job.factor,
                containers=settings.job.containers,
                grouper_name=settings.job.grouper,
                grouper=groupers.named(settings.job.grouper),
                partitions=self.system.counts(),
                systems=systems.bound(),
                default_system=self.system.name,
                at_least_once=settings.at_least_once,
                real_time=RealTime(
                    settings.job.on_error, settings.job.on_null_key, settings.job.watermark_scope, {"kafka"}
                )
                if settings.job.trigger == "real-time"
                else None,
            ),
        )
        for output in plan.outputs:
            if output.stream is not None and not systems.is_table(output.stream):
                self.system.create(output.stream, output.partitions, output.intermediate)
        known = None if create else {str(output.stream) for output in plan.outputs}
        outputs.prepare_tables(preparation.Prepared(loading.of(job), settings, plan, schemas, formats, known))
        numbers = count()
        lanes = planning.lanes_of(plan, settings.job.state_partitions, lambda: f"{next(numbers):08x}")
        return Deployed(self, settings, job, schemas, formats, plan, list(lanes))


class KafkaSite(Site):
    """On a broker that others use, too: names of streams and jobs begin with ``name``."""

    def __init__(self, spark: SparkSession, root: Path, broker: KafkaSettings) -> None:
        self.name = f"t{uuid.uuid4().hex[:8]}"
        self._broker = broker
        super().__init__(spark, root)
        self.system = Systems(self.settings()).named("kafka")
        self._producer = Producer(clients.librdkafka(broker))

    def settings(self, formats: Mapping[str, Any] | None = None, **job: Any) -> Settings:
        embedded = super().settings(formats, **job)
        return embedded.model_copy(update={"systems": SystemsSettings(default="kafka", kafka=self._broker)})

    def create(self, stream: str, partitions: int) -> str:
        """Make a stream; its whole name."""
        self.system.create(f"{self.name}-{stream}", partitions)
        return f"{self.name}-{stream}"

    def put(self, stream: str, partition: int, rows: Sequence[Any], keys: Sequence[bytes | None] | None = None) -> None:
        for row, key in zip(rows, keys or [None] * len(rows), strict=True):
            value = json.dumps(row).encode() if isinstance(row, dict) else row
            self._producer.produce(stream, value, key, partition=partition)
        assert self._producer.flush(PATIENCE) == 0


@dataclass
class Deployed:
    """A job that was planned on a site. Its lanes remember their folders from run to run.

    ``starting``: where they begin that go on from no others; default: with all that there is.
    """

    site: Site
    settings: Settings
    job: Job
    schemas: Mapping[int, Any]
    formats: Mapping[str, Format]
    plan: Plan
    lanes: list[Lane]
    epoch: int = 1
    starting: Offsets = field(default_factory=dict)
    reports: dict[str, LaneReport] = field(default_factory=dict)

    def run(self) -> dict[str, LaneReport]:
        """Run every lane to the present end of its inputs, those that feed others first; reports by lane."""
        own = {stages.stream_of(self.job.graph, n) for n in self.job.graph.nodes if is_boundary(n)}
        self.reports = {}
        for number, lane in enumerate(self.lanes):
            ends = self.ends(lane)
            until = {ssp: end for ssp, end in ends.items() if ssp.stream not in own}
            runner = LaneRunner(
                self.lane_folders,
                lane,
                self.epoch,
                self.building(lane, until),
                always({**self.starting, **lane.begins}),
                always(until),
                Standstill(math.inf),
            )
            runner.start()
            runner.acknowledge(upstream_ended=True)
            assert runner.join(PATIENCE), f"lane {lane.id} didn't end: {runner.report}"
            self.reports[lane.id] = runner.report
            self.lanes[number] = msgspec.structs.replace(lane, folder_epoch=runner.report.attempt.folder_epoch)
        self.epoch += 1
        return self.reports

    @property
    def lane_folders(self) -> LaneFolders:
        return replace(self.site.lane_folders, systems=Systems(self.settings, self.job.graph.job))

    @contextmanager
    def running(self, to: str = "ended") -> Iterator[Callable[[], dict[str, LaneReport]]]:
        """All lanes run at once, until the end; gives what tells their reports. ``to`` is their last phase."""
        runners = [
            LaneRunner(self.lane_folders, lane, self.epoch, self.building(lane, {}), dict, None, Standstill(math.inf))
            for lane in self.lanes
        ]
        for runner in runners:
            runner.start()
            runner.acknowledge(upstream_ended=False)
        try:
            yield lambda: {runner.lane.id: runner.report for runner in runners}
        finally:
            for runner in runners:
                runner.stop()
            for number, runner in enumerate(runners):
                assert runner.join(PATIENCE), f"lane {runner.lane.id} didn't end: {runner.report}"
                assert runner.report.phase == to, runner.report
                self.reports[runner.lane.id] = runner.report
                epoch = runner.report.attempt.folder_epoch
                self.lanes[number] = msgspec.structs.replace(runner.lane, folder_epoch=epoch)
            self.epoch += 1

    def ran(self) -> dict[str, LaneReport]:
        """:meth:`run`, and every lane has ended well."""
        reports = self.run()
        assert {report.phase for report in reports.values()} == {"ended"}, reports
        return reports

    def failure(self) -> str:
        """:meth:`run`, and what the one lane that failed says."""
        (error,) = [report.error for report in self.run().values() if report.phase == "failed"]
        assert error is not None
        return error

    def ends(self, lane: Lane) -> Offsets:
        whole = {ssp.whole for ssp in (*lane.ssps, *lane.broadcast)}
        return {ssp: self.site.system.high_watermarks(ssp.stream)[ssp.partition] for ssp in whole}

    def rows_read(self) -> int:
        """How many rows the lanes of the last run took in together."""
        return sum(report.progress.rows for report in self.reports.values())

    def query(self, lane: Lane, folder: str, until: Mapping[SSP, int] | None = None, epoch: int = 1) -> LaneQuery:
        """The query of a lane on a folder of the test's choice."""
        return LaneQuery(
            job=self.loaded,
            lane=lane,
            epoch=epoch,
            folder=folder,
            planned=Folder(self.site.spark, folder).batch,
            clock=str(self.site.lane_folders.clock(lane)),
            starting={},
            until=until or {},
        )

    @property
    def loaded(self) -> LoadedJob:
        job, home = self.job, str(Path(__file__).parent)
        return LoadedJob(self.site.spark, self.settings, job.graph, job.functions, self.schemas, self.formats, home)

    def folder(self, lane: Lane) -> Folder:
        """The folder that a lane has had since its first run."""
        return Folder(self.site.spark, f"{self.site.lane_folders.root}/{lane.job}/{lane.id}/{lane.folder_epoch}")

    def building(self, lane: Lane, until: Offsets) -> Build:
        def build(folder: Folder, clock: str, starting: Offsets, dropped: Callable[[int], None]) -> LaneQuery:
            query = self.query(lane, folder.uri, until, self.epoch)
            return replace(
                query,
                clock=clock,
                starting=starting,
                inherited=lambda: self.lane_folders.inherited(lane),
                dropped=dropped,
                remembered=lambda quick: batch_size_store.remembered(self.lane_folders, lane, quick=quick),
            )

        return build


def always(offsets: Offsets) -> Callable[[], Offsets]:
    """What looks up these offsets."""
    return lambda: offsets


def copying(site: Site) -> Deployed:
    """A job that copies five records."""
    site.log.create("in", 1)
    site.put("in", 0, [{"n": n} for n in range(5)], [b"k"] * 5)
    job = Job("j")
    job.read("in", key="k string", schema="n int").write("out")
    return site.deployed(job)
