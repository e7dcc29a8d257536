"""The container's loop: it reports on lanes, and starts and stops them according to the coordinator's answers."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import TypeVar

import msgspec
from pyspark.sql import SparkSession

from anabranch import logs, scratch
from anabranch.clocks import boottime
from anabranch.config.storage import local_folder
from anabranch.container.checkpoint import claims
from anabranch.container.checkpoint.folder import Folder
from anabranch.container.checkpoint.lane_folders import LaneFolders
from anabranch.container.checkpoint.standbys import Standbys
from anabranch.container.drain_hook import DrainHook
from anabranch.container.heartbeats import Coordination, DirectHeartbeats, Heartbeats
from anabranch.container.lane.attempt import Offsets
from anabranch.container.lane.building import QueryBuilder
from anabranch.container.lane.handover import Handover, PrestartedQuery, Prestarter
from anabranch.container.lane.life import Life
from anabranch.container.lane.runner import LaneRunner, Trace, logged
from anabranch.container.lane.supervisor import LaneSupervisor
from anabranch.container.lane.surroundings_wait import Patience
from anabranch.container.preparing import Preparations
from anabranch.container.restarts import ProcessBrokenError, Restarts
from anabranch.container.retries import Retries, Standstill
from anabranch.container.seat_lease import SeatLease
from anabranch.errors import AnabranchError
from anabranch.event_time import durations
from anabranch.model.lane import Lane
from anabranch.protocol.container import HeartbeatResponse, Registration, WantedLane
from anabranch.protocol.lane_report import LaneReport
from anabranch.spark.query import query
from anabranch.spark.query.plan import LoadedJob
from anabranch.spark.query.preanalysis import PreanalyzedQuery
from anabranch.spark.query.query import LaneQuery
from anabranch.systems.systems import Systems

T = TypeVar("T")

_PERIOD = 0.1
ENDS_WITHIN = 30.0

log = logs.get_logger()


class Container:
    """One container of a job.

    Args:
        job: the job whose lanes the container runs.
        coordination: how the container reaches its coordinator.
        period: the longest time between two turns of the loop, in seconds.
        replaced: the replacements of this process so far; None if the process can't be replaced.
        trace: records the details of the error that made a lane fail.

    Attributes:
        standbys: the standbys that the container maintains, with or without a seat.
    """

    def __init__(
        self,
        job: LoadedJob,
        coordination: Coordination,
        period: float = _PERIOD,
        replaced: Restarts | None = None,
        trace: Trace = logged,
    ) -> None:
        self._job = job
        self._coordination = coordination
        self._period = period
        self._replaced = replaced
        self._trace = trace
        self._clocks = tempfile.TemporaryDirectory(prefix="clocks-", dir=scratch.folder("container"))
        systems = Systems(job.settings, job.graph.job)
        lane_folders = LaneFolders(job.spark, job.settings.storage.root, Path(self._clocks.name), systems)
        self._builder = QueryBuilder(job, lane_folders)
        self._turn = threading.Event()
        self._preparations: Preparations[PreanalyzedQuery] = Preparations(
            self._builder.take, self._turn.set, self._builder.foreseen
        )
        self._prestarter = Prestarter(self._prestart, lambda lane: self._preparations.foreseen(lane) is not None)
        self._closing: list[tuple[WantedLane, list[Lane]]] = []
        self._coming: tuple[Lane, ...] = ()
        self.standbys = Standbys(lambda lane, epoch: lane_folders.of(job.graph.job, lane, epoch), self._turn.set)
        self._keepers: dict[str, LaneSupervisor] = {}
        self._hook = DrainHook(
            job.functions, lambda: [keeper.lane for keeper in tuple(self._keepers.values())], job.home
        )

    def run(self, registration: Registration, leaving: threading.Event | None = None) -> None:
        """Take a seat, and start and stop lanes until all lanes have ended and the coordinator says that nothing is
        left to run. If ``leaving`` is set, all lanes are stopped, and the call returns.

        Raises:
            FencedError: the seat was lost, for example because a newer process has taken it; everything was stopped.
            ProcessBrokenError: as in :meth:`serve`.
        """
        me = self._coordination.register(registration)
        seat_lease = SeatLease(me, boottime(), boottime, stops_because="")
        self.serve(DirectHeartbeats(self._coordination, seat_lease), leaving)

    def serve(self, heartbeats: Heartbeats, leaving: threading.Event | None = None) -> None:
        """Start and stop lanes as :meth:`run` does, but with a seat that has already been taken.

        Args:
            heartbeats: exchanges heartbeats for this seat.
            leaving: if this event is set, all lanes are stopped, and the call returns.

        Raises:
            FencedError: the seat was lost; everything was stopped.
            ProcessBrokenError: only a new process can help; everything was stopped, and the seat was returned if the
                coordinator could be reached.
        """
        heartbeats.listen(self._turn.set)
        try:
            while leaving is None or not leaving.is_set():
                answer = heartbeats.take(self.reports, self.standbys.reports, self._preparations.ended(self._coming))
                if answer is not None:
                    self._reconcile(answer)
                    if answer.done and all(keeper.ended for keeper in self._keepers.values()):
                        return
                self._close_prepared()
                self._check_process()
                self._turn.wait(self._period)
                self._turn.clear()
        except ProcessBrokenError:
            self._stop_all()
            self._leave(heartbeats, returns=True)
            raise
        finally:
            self._stop_all()

    def _leave(self, heartbeats: Heartbeats, *, returns: bool = False) -> None:
        try:
            heartbeats.leave(self.reports, returns=returns)
        except AnabranchError as error:
            log.warning("the seat could not be given back: its lease will end", error=str(error))

    @property
    def batches(self) -> dict[str, int]:
        """The last committed batch of each lane."""
        return {lane: keeper.batch for lane, keeper in tuple(self._keepers.items())}

    @property
    def spark(self) -> SparkSession:
        return self._job.spark

    @property
    def reports(self) -> tuple[LaneReport, ...]:
        """The current reports of the lanes."""
        return tuple(keeper.report for keeper in self._keepers.values())

    def _reconcile(self, answer: HeartbeatResponse) -> None:
        self._coming = answer.coming
        self._preparations.begin(answer.coming, (each.lane.id for each in answer.wanted))
        # A lane that ends when it has caught up needs another query, which knows where it ends.
        ahead = () if answer.until_caught_up else answer.coming
        self._prestarter.announce(ahead, (each.lane.id for each in answer.wanted))
        wanted = {each.lane.id: each for each in self._not_too_early(answer)}
        for lane_id, keeper in tuple(self._keepers.items()):
            if lane_id in wanted:
                keeper.go_on(wanted[lane_id])
            elif keeper.closed:
                del self._keepers[lane_id]  # the coordinator knows of the end: otherwise, it would still want the lane
            else:
                keeper.stop(answer.at_once)
        for lane_id, each in wanted.items():
            if lane_id not in self._keepers:
                self._keepers[lane_id] = self._kept(each, answer.until_caught_up)
        self.standbys.want(answer.copies)

    def _not_too_early(self, answer: HeartbeatResponse) -> Iterator[WantedLane]:
        """Yields the wanted lanes. A lane that runs here and should close keeps running while its successors are still
        being prepared, here or in other containers. This delay shortens the pause in output. Such a lane is yielded
        with ``closing=False``. From then on, the lane's batches are brief, so that the lane can end soon after its
        successors are prepared.
        """
        self._closing = []
        for each in answer.wanted:
            following = [lane for lane in answer.coming if each.lane.id in lane.predecessors]
            early = each.deferred or self._preparations.under_way(following)
            if not (early and each.closing and each.lane.id in self._keepers):
                yield each
                continue
            if not each.deferred:  # otherwise, another answer follows
                self._closing.append((each, following))
            self._keepers[each.lane.id].prepare_to_close()
            yield msgspec.structs.replace(each, closing=False)

    def _close_prepared(self) -> None:
        """Close the lanes that were kept running, once the successors' preparation has ended or taken too long."""
        held, self._closing = self._closing, []
        for each, following in held:
            if self._preparations.under_way(following):
                self._closing.append((each, following))
            elif each.lane.id in self._keepers:
                self._keepers[each.lane.id].go_on(each)

    def _kept(self, wanted: WantedLane, until_caught_up: bool) -> LaneSupervisor:
        lane, standstill = wanted.lane, self._standstill()
        log.debug("lane starts", action="start_lane", lane=lane.id, epoch=lane.epoch)
        return LaneSupervisor(
            wanted,
            lambda newest, life: self._runner(newest, until_caught_up, standstill, life),
            Retries(self._job.settings.job.attempts),
            replaceable=lambda: self._restarts_for(lane.id) is not None,
            patience=Patience(self._job.settings.job.wait_seconds),
        )

    def _restarts_for(self, lane: str, why: str = "") -> Restarts | None:
        """The replacements of this process so far, plus the one that the lane needs now. None if the process can't be
        replaced, or was replaced too often without progress."""
        return None if self._replaced is None else self._replaced.after(lane, self.batches, why)

    def _check_process(self) -> None:
        for lane, keeper in self._keepers.items():
            if keeper.needs_process:
                following = self._restarts_for(
                    lane, f"lane {lane} failed in {keeper.attempts} of {keeper.attempts} attempts: {keeper.trouble}"
                )
                assert following is not None
                raise ProcessBrokenError(following)

    def _standstill(self) -> Standstill:
        job = self._job.settings.job
        patience = durations.parse(job.stall_after) / 1000
        if job.trigger == "real-time":  # positions are only known at the end of a batch
            patience += query.real_time_seconds(self._job.settings)
        return Standstill(patience)

    def _runner(self, lane: Lane, until_caught_up: bool, standstill: Standstill, life: Life) -> LaneRunner:
        # Inputs are only asked in the lane's own thread: if they can't be reached, other lanes keep running.
        starting = cache(partial(self._builder.starting, lane, lane.begins))
        until = cache(partial(self._builder.until, lane)) if until_caught_up else None

        def ends() -> Offsets:
            return {} if until is None else until()

        def build(folder: Folder, clock: str, positions: Offsets, dropped: Callable[[int], None]) -> LaneQuery:
            query = self._builder.query(lane, folder, clock, positions, ends(), dropped)
            found = self._preparations.foreseen(lane)
            known = None if found is None or ends() else found.known(query)
            if known is not None and folder.committed() < 0:
                folder.begin_at(known.begins)
            return known or query

        return LaneRunner(
            self._builder.lane_folders,
            lane,
            lane.epoch,
            build,
            starting,
            until,
            standstill,
            taken=lambda: self._preparations.taken(lane),
            wake=self._turn.set,
            drained=self._hook.drained,
            handover=Handover(
                prestarted=partial(self._prestarted, lane, starting),
                is_awaited=partial(self._prestarter.is_awaited, lane.id),
                ends_at=partial(self._prestarter.end_at, lane.id),
            ),
            trace=self._trace,
            life=life,
        )

    def _prestart(self, lane: Lane, starting: Offsets) -> PrestartedQuery | None:
        return self._builder.prestarted(lane, starting, self._preparations.foreseen(lane))

    def _prestarted(self, lane: Lane, starting: Callable[[], Offsets]) -> PrestartedQuery | None:
        """The lane's prestarted query; None if no prestarted query fits the lane and its start offsets."""

        def wanted() -> tuple[LaneQuery, Offsets]:
            begins, lane_folders = starting(), self._builder.lane_folders
            folder = lane_folders.at(lane, lane.epoch)
            return self._builder.query(lane, folder, str(lane_folders.clock(lane)), begins), begins

        return self._prestarter.take_fitting(lane, wanted)

    def _stop_all(self) -> None:
        """Stop everything. If one step fails, its error is only logged, and the other steps are still performed. The
        error isn't raised, because it would hide a more informative error that the caller may be about to raise."""
        keepers = tuple(self._keepers.values())
        for step in (self.standbys.end, self._prestarter.end, *(keeper.leave for keeper in keepers)):
            _guarded(step)
        end = time.monotonic() + ENDS_WITHIN
        parts: tuple[LaneSupervisor | Prestarter, ...] = (*keepers, self._prestarter)
        ended = [_guarded(partial(_joined, part, end)) for part in parts]
        # A warm-up's container, whose storage is local, must not release the claims of the process's own container.
        if all(ended) and local_folder(self._job.settings.storage.root) is None:
            _guarded(claims.end)
        _guarded(self._clocks.cleanup)


def _joined(part: LaneSupervisor | Prestarter, end: float) -> bool:
    return part.join(max(0.0, end - time.monotonic()))


def _guarded(step: Callable[[], T]) -> T | None:
    """Perform one step of stopping a container, and return the step's result. If the step fails, log the error and
    return None."""
    try:
        return step()
    except Exception as error:
        log.warning("a container could not stop cleanly", step=str(step), error=str(error))
        return None
