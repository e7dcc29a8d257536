"""Simulates, in this process, the killing of a job whose most recent batches are published but not committed."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from anabranch import crash_points
from anabranch.container.checkpoint.folder import Folder
from anabranch.model.lane import Lane
from anabranch.model.ssp import SSP, parsed
from anabranch.protocol.lane_report import LanePhase, LaneReport
from anabranch.systems.systems import Systems
from anabranch.testing.result import Pending

__all__ = ["Kill", "KilledError"]

_POLL = 0.02


class KilledError(Exception):
    """Simulates the end of the process. Only :class:`Incarnation` catches this error."""


def _is_news(record: logging.LogRecord) -> bool:
    return record.exc_info is None or not isinstance(record.exc_info[1], KilledError)


logging.getLogger("py4j.clientserver").addFilter(_is_news)


class Kill:
    """Holds each lane in the batch that reaches the end of the lane's inputs. The lane is held after this batch is
    published, and before the batch is committed. When all lanes are ready, kills them.

    A lane is ready when it is held or idle, and no lane will write more records to the lane's inputs.

    Attributes:
        pending: once the job is killed, the batches that were planned but not committed.
    """

    def __init__(self, spark: SparkSession, systems: Systems, root: str, lanes: Mapping[str, Lane]) -> None:
        self._spark = spark
        self._systems = systems
        self._root = root
        self._lanes = lanes
        self._reports: Mapping[str, LaneReport] = {}
        self._settled: set[str] = set()
        self._held: set[str] = set()
        self._dead = threading.Event()
        self._off = threading.Event()
        self.pending: tuple[Pending, ...] = ()

    def reached(self, step: str, lane: str, batch: int) -> None:
        """If a lane has published the batch that reaches the end of the lane's inputs, hold the lane. The lane is held
        until the job is killed, the kill is cancelled, or the lane's inputs have more records.

        This method is the callback for :func:`crash_points.watched`, and runs on the lane's own thread.

        Raises:
            KilledError: the job was killed while this lane was held.
        """
        if step != crash_points.PUBLISHED or lane not in self._lanes:
            return
        while not self._off.is_set() and self._takes_all(self._lanes[lane], batch):
            if self._dead.is_set():
                raise KilledError(f"lane {lane} was killed in batch {batch}")
            if self._nothing_comes(self._lanes[lane]):
                self._held.add(lane)
                self._settled.add(lane)
            time.sleep(_POLL)

    def due(self, reports: Sequence[LaneReport]) -> bool:
        """Whether every lane is ready to be killed. If a lane has failed, this method cancels the kill."""
        self._reports = {report.lane: report for report in reports}
        if any(report.phase == LanePhase.FAILED for report in reports):
            self._off.set()
            return False
        for lane in self._lanes.values():
            if lane.id not in self._settled and self._nothing_comes(lane) and self._is_idle(lane):
                self._settled.add(lane.id)
        return self._settled >= self._lanes.keys()

    def strike(self) -> None:
        """Kill all lanes, and store the pending batches in ``pending``. Always raises KilledError."""
        self._dead.set()
        for query in self._spark.streams.active:
            if query.name in self._held:
                _wait_for_end(query)
            elif query.name in self._lanes:
                query.stop()
        folders = {lane: self._folder(lane) for lane in self._lanes}
        self.pending = tuple(
            Pending(lane, folder.planned(), folder.committed()) for lane, folder in folders.items() if folder.pending
        )
        raise KilledError("the test killed the job")

    def call_off(self) -> None:
        """Cancel the kill: release all lanes that are held."""
        self._off.set()

    def _nothing_comes(self, lane: Lane) -> bool:
        read = {ssp.stream for ssp in (*lane.ssps, *lane.broadcast)}
        return self._settled >= {each.id for each in self._lanes.values() if not read.isdisjoint(each.outputs)}

    def _is_idle(self, lane: Lane) -> bool:
        report = self._reports.get(lane.id)
        if report is None or report.phase not in (LanePhase.RUNNING, LanePhase.ENDED):
            return False
        return self._at_ends(lane, parsed(report.progress.positions))

    def _takes_all(self, lane: Lane, batch: int) -> bool:
        planned = self._folder(lane.id).planned_positions(batch)
        read = lane.partitions
        return self._at_ends(lane, {ssp: planned.get(ssp.stream, {}).get(ssp.partition, 0) for ssp in read})

    def _at_ends(self, lane: Lane, positions: Mapping[SSP, int]) -> bool:
        wanted = lane.partitions
        streams = {(ssp.system, ssp.stream) for ssp in wanted}
        ends = {(system, stream): self._systems.named(system).high_watermarks(stream) for system, stream in streams}
        return all(positions.get(ssp, 0) >= ends[ssp.system, ssp.stream][ssp.partition] for ssp in wanted)

    def _folder(self, lane_id: str) -> Folder:
        lane, report = self._lanes[lane_id], self._reports.get(lane_id)
        epoch = lane.folder_epoch or (report.attempt.folder_epoch if report is not None else 0)
        uri = f"{self._root}/{lane.job}/{lane.id}/{epoch}"
        return Folder(self._spark, uri, self._systems.streams_by_topic)


def _wait_for_end(query: StreamingQuery) -> None:
    """Wait until a query ends on its own after its batch has failed. If the query were stopped instead, Spark would
    spend time on the error's long text.
    """
    while query.isActive:
        time.sleep(_POLL)
