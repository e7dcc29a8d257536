"""Builds the queries of lanes, prestarts them, and determines where lanes begin and end."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from anabranch.container import batch_size_store
from anabranch.container.checkpoint.folder import Folder
from anabranch.container.checkpoint.lane_folders import LaneFolders
from anabranch.container.checkpoint.planned_batches import planned_batches
from anabranch.container.inputs import Inputs
from anabranch.container.lane.attempt import Offsets
from anabranch.container.lane.handover import PrestartedQuery
from anabranch.model.lane import Lane
from anabranch.model.ssp import SSP
from anabranch.operators.rules import is_boundary
from anabranch.planning import stages
from anabranch.spark.query import preanalysis
from anabranch.spark.query.gate import Gate
from anabranch.spark.query.plan import LoadedJob
from anabranch.spark.query.preanalysis import PreanalyzedQuery
from anabranch.spark.query.query import LaneQuery

__all__ = ["QueryBuilder"]


class QueryBuilder:
    """Builds the queries of a job's lanes in a container."""

    def __init__(self, job: LoadedJob, lane_folders: LaneFolders) -> None:
        self.job = job
        self.lane_folders = lane_folders
        self._noted: dict[str, dict[int, int]] = {}

    def query(
        self,
        lane: Lane,
        folder: Folder,
        clock: str = "",
        starting: Offsets | None = None,
        until: Offsets | None = None,
        dropped: Callable[[int], None] = lambda _: None,
    ) -> LaneQuery:
        return LaneQuery(
            job=self.job,
            lane=lane,
            epoch=lane.epoch,
            folder=folder.uri,
            planned=planned_batches(folder),
            clock=clock,
            starting=starting or {},
            inherited=lambda: self.lane_folders.inherited(lane),
            remembered=lambda quick: batch_size_store.remembered(self.lane_folders, lane, quick=quick),
            until=until or {},
            dropped=dropped,
            gate=Gate(check_owner=folder.check_owner),
        )

    def take(self, lane: Lane) -> None:
        """Take over the outputs of a new lane, to shut out lower epochs. Raises StateError if the outputs already
        contain a batch of the lane."""
        self.query(lane, self.lane_folders.at(lane, lane.epoch)).outputs.take(new=True)
        self.lane_folders.check_new(lane, self.lane_folders.published(lane))

    def foreseen(self, lane: Lane) -> PreanalyzedQuery | None:
        """The query of a lane that will start soon, analyzed by Spark; None if it can't be analyzed in advance."""
        query = self.query(lane, self.lane_folders.at(lane, lane.epoch), str(self.lane_folders.clock(lane)))
        return preanalysis.foreseen(query)

    def prestarted(self, lane: Lane, starting: Offsets, foreseen: PreanalyzedQuery | None) -> PrestartedQuery | None:
        """Start the query of a lane that will start soon. Returns None, without starting a query, if
        ``foreseen`` is None or doesn't fit the lane's query.

        Args:
            starting: the start offsets that are known, by whole SSP. Other offsets are determined by :meth:`starting`.
            foreseen: the lane's query as Spark has analyzed it in advance; see :meth:`foreseen`.
        """
        starting = self.starting(lane, starting)
        folder = self.lane_folders.at(lane, lane.epoch)
        query = self.query(lane, folder, str(self.lane_folders.clock(lane)), starting)
        known = None if foreseen is None else foreseen.known(query)
        if foreseen is None or known is None:
            return None
        ahead = PrestartedQuery(foreseen, known, folder, starting)
        try:
            Inputs(self.lane_folders.systems, lane, starting).take(folder)
        except Exception:
            ahead.abandon()
            raise
        return ahead

    def starting(self, lane: Lane, begins: Offsets) -> Offsets:
        """A lane's start offsets, by whole SSP. An SSP that isn't in ``begins`` is read from its beginning if it
        belongs to an intermediate stream, or if no lane has read its partition before (``lane.fresh``). For any other
        SSP, the ``start`` argument of ``read`` applies.

        Some systems, such as the embedded log, keep track of the readers of their streams. If the lane hasn't run yet,
        these systems are first told to keep all current records until the lane has read them. This step is
        limited to streams for which an offset must be chosen.

        Args:
            begins: the start offsets that are already known, by whole SSP.

        Raises:
            LogError: the job couldn't be recorded as a reader of a stream.
        """
        given = dict(begins)
        if not lane.ran:  # otherwise, its folder says where it continues
            self._hold(lane, lane.partitions - given.keys())
        fresh = set(lane.fresh)
        reads = [n for n in self.job.graph.nodes if n.kind == "read" and n.args["start"] == "latest"]
        latest = {stream for n in reads for stream in lane.streams_of(n.args["stream"])}
        places: dict[tuple[str, bool], dict[int, int]] = {}
        for ssp in (*lane.ssps, *lane.broadcast):
            if ssp.whole in given:
                continue
            at_end = ssp.stream in latest and ssp.whole not in fresh
            if (ssp.stream, at_end) not in places:
                system = self.lane_folders.systems.named(ssp.system)
                places[ssp.stream, at_end] = system.ends(ssp.stream) if at_end else system.starts(ssp.stream)
            given[ssp.whole] = places[ssp.stream, at_end][ssp.partition]
        return given

    def _hold(self, lane: Lane, chosen: Iterable[SSP]) -> None:
        """Make the streams of the SSPs in ``chosen`` keep their current records. Call this before start offsets are
        chosen for these SSPs. Only systems that keep track of the readers of their streams are affected."""
        for name, stream in sorted({(ssp.system, ssp.stream) for ssp in chosen}):
            readers = self.lane_folders.systems.named(name).readers()
            if readers is not None:
                readers.hold_all(stream, lane.job)

    def until(self, lane: Lane) -> Offsets:
        """The end offsets of a lane's inputs, by whole SSP, except for streams that the job writes itself. The offsets
        are high watermarks, so they include the records of open transactions. For a partition that was added after its
        stream was looked up, the offset is 0.

        The offsets are the same for all lanes of the container, because the result of the first look-up of each stream
        is kept. Thread-safe.
        """
        own = {stages.stream_of(self.job.graph, n) for n in self.job.graph.nodes if is_boundary(n)}
        found: Offsets = {}
        for ssp in (*lane.ssps, *lane.broadcast):
            if ssp.stream not in own:
                if ssp.stream not in self._noted:
                    ends = self.lane_folders.systems.named(ssp.system).high_watermarks(ssp.stream)
                    self._noted.setdefault(ssp.stream, ends)  # another lane may have been faster
                found[ssp.whole] = self._noted[ssp.stream].get(ssp.partition, 0)  # 0: the partition was added later
        return found
