"""One attempt to run a lane: the data that all parts of a runner share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql.streaming.query import StreamingQuery

from anabranch.container.checkpoint.folder import Folder
from anabranch.container.checkpoint.lane_folders import LaneFolders
from anabranch.container.inputs import Inputs
from anabranch.container.lane.handover import Handover
from anabranch.container.lane.life import Life
from anabranch.container.lane.reporting import Reporter
from anabranch.model.lane import Lane
from anabranch.model.ssp import SSP, parsed, texts
from anabranch.protocol.lane_report import LaneReport
from anabranch.spark.query.query import LaneQuery

__all__ = ["POLL", "Attempt", "Build", "Offsets"]

POLL = 0.1
"""The seconds between two checks of a query."""

Offsets = dict[SSP, int]

Build = Callable[[Folder, str, Offsets, Callable[[int], None]], LaneQuery]
"""Makes a query of the lane. The arguments are the lane's folder, the file with the lane's event time, the lane's start
offsets, and a function that counts dropped records."""


@dataclass
class Counts:
    """Counts of dropped records and late rows. ``late`` contains the numbers of late rows in the attempt's former
    queries, by SSP. The current query keeps its own count of late rows."""

    dropped: int = 0
    late: Counter[str] = field(default_factory=Counter)

    def drop(self, records: int) -> None:
        self.dropped += records


@dataclass
class Attempt:
    """The state of one attempt. Only the lane's own thread and the thread that analyzes the query use it; other threads
    only read ``query`` and ``report``.

    Args:
        starting: the lane's start offsets, by whole SSP; {} before they have been looked up.
        until: the offsets at which the lane ends, by whole SSP; {} before they have been looked up, and None if the
            lane keeps running. See :meth:`QueryBuilder.until <anabranch.container.lane.building.QueryBuilder.until>`.
        folder_taken: the lane's folder, once the lane has taken it.
        query: the query that was made last.
        started: Spark's object for the query that was started last.
    """

    lane_folders: LaneFolders
    lane: Lane
    epoch: int
    build: Build
    starting: Offsets
    until: Offsets | None
    life: Life
    reporter: Reporter
    handover: Handover
    folder_taken: Folder | None = None
    folder_in_use: Folder | None = None
    """The lane's folder, once a query has been made for it."""
    query: LaneQuery | None = None
    started: StreamingQuery | None = None
    counts: Counts = field(default_factory=Counts)
    inputs: Inputs = field(init=False)

    def __post_init__(self) -> None:
        self.inputs = Inputs(self.lane_folders.systems, self.lane, self.starting)

    @property
    def clock(self) -> Path:
        """The file with the lane's event time."""
        return self.lane_folders.clock(self.lane)

    @property
    def folder(self) -> Folder:
        assert self.folder_taken is not None
        return self.folder_taken

    @property
    def current(self) -> LaneQuery:
        """The query that was made last."""
        assert self.query is not None
        return self.query

    @property
    def report(self) -> LaneReport:
        """The report that other threads see."""
        return self.reporter.shown(self.query, self.life.state)

    def take_folder(self, folder: Folder) -> None:
        """Use a folder, and store the start offsets in it. If an earlier attempt has stored other start offsets in the
        folder, the stored offsets are used instead. Offsets that the lane's definition prescribes (``begins``) always
        take precedence."""
        noted = parsed(folder.note_starting(texts(self.starting)))
        own = {ssp: offset for ssp, offset in noted.items() if ssp in self.starting}
        self.starting = {**self.starting, **own, **self.lane.begins}
        self.inputs = Inputs(self.lane_folders.systems, self.lane, self.starting)
        self.folder_taken = folder

    def build_query(self) -> LaneQuery:
        """A new query for the current content of the folder."""
        return self.build(self.folder, str(self.clock), self.starting, self.counts.drop)

    def use(self, query: LaneQuery) -> LaneQuery:
        """Set the lane's query. The counts of former queries are kept."""
        if self.query is not None and self.query is not query:
            self.counts.late += self.query.outputs.late
            query.pacer.go_on(self.query.pacer)
        self.query = query
        return query

    def positions(self) -> Offsets:
        return self.wholes(self.folder.positions())

    def wholes(self, positions: Mapping[str, Mapping[int, int]]) -> Offsets:
        """The positions of all inputs, by whole SSP, given ``positions`` by stream and partition. An input without a
        position gets its start offset, or 0 if it has no start offset."""
        return {
            ssp.whole: positions.get(ssp.stream, {}).get(ssp.partition, self.starting.get(ssp.whole, 0))
            for ssp in (*self.lane.ssps, *self.lane.broadcast)
        }

    def pending_ranges(self) -> dict[str, tuple[int, int]]:
        """The pending batch's first offset and end offset, by SSP; {} if no batch is pending, or if the offsets
        can't be determined."""
        try:
            folder = self.folder_in_use
            return (
                self.current.sources.ranges(folder.batch(folder.planned()))
                if folder is not None and folder.pending
                else {}
            )
        except Exception:  # perhaps it is the folder that has failed
            return {}
