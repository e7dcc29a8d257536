"""Stores, next to each stream that a job reads, the offsets from which the job still has to read. As a
result, the stream's retention keeps the records from these offsets on. The offsets are stored in the embedded log, and
in other systems that keep track of the readers of streams.

In the job's intermediate streams, the records before these offsets are also deleted, whatever the system.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from anabranch import logs
from anabranch.coordinator.jobs.registry import JobRegistry
from anabranch.coordinator.jobs.running_job import RunningJob
from anabranch.model.deployment_state import DeploymentState
from anabranch.model.lane import Lane, LaneState, lowest
from anabranch.model.ssp import SSP, wholes
from anabranch.planning import stages
from anabranch.protocol.lane_report import LaneReport
from anabranch.systems.readers import Readers
from anabranch.systems.systems import Systems
from anabranch.throttle import LastTold

__all__ = ["Positions", "ReaderPositions", "common", "still_to_read"]

_EVERY = 60.0

Positions = Mapping[tuple[str, str], Mapping[int, int]]
"""The lowest offset that a job still has to read, by (system, stream) and then by partition."""

log = logs.get_logger()


def still_to_read(
    lanes: Collection[Lane], known: Mapping[str, Lane], reports: Mapping[str, LaneReport]
) -> Positions | None:
    """The lowest offsets that a job still has to read. They are determined from the job's open lanes and from its
    closed lanes without successors. The result is None if there are no such lanes. Streams that none of these
    lanes reads are left out. A partition is also left out if any of these lanes reads it from an unknown position.

    Closed lanes without successors count because a drain closes lanes one after another, and the next deployment
    continues where the closed lanes ended.

    Args:
        lanes: the lanes of the deployment, and the open lanes of former deployments.
        known: all lanes of the job, by id.
        reports: the latest reports, by lane id.
    """
    followed = {name for lane in known.values() for name in lane.predecessors}
    reading = [lane for lane in lanes if lane.state is not LaneState.CLOSED or lane.id not in followed]
    if not reading:
        return None
    next_offsets = _NextOffsets(known, reports)
    found: dict[tuple[str, str], dict[int, int]] = {}
    unknown: set[SSP] = set()
    for lane in reading:
        for ssp in next_offsets.read_by(lane):
            of_stream, at = found.setdefault((ssp.system, ssp.stream), {}), next_offsets.of(lane, ssp)
            if at is None:
                unknown.add(ssp)
            else:
                of_stream[ssp.partition] = min(at, of_stream.get(ssp.partition, at))
    for ssp in unknown:
        found[ssp.system, ssp.stream].pop(ssp.partition, None)
    return found


class _NextOffsets:
    """The lowest offsets that lanes or their successors can read next. Looks through each lane only once, because a
    lane may read thousands of partitions."""

    def __init__(self, known: Mapping[str, Lane], reports: Mapping[str, LaneReport]) -> None:
        self._known = known
        self._reports = reports
        self._read: dict[str, frozenset[SSP]] = {}
        self._begins_and_ends: dict[str, tuple[Mapping[SSP, int], Mapping[SSP, int]]] = {}

    def read_by(self, lane: Lane) -> frozenset[SSP]:
        """The whole SSP of each partition of which a lane reads all or some buckets."""
        if lane.id not in self._read:
            self._read[lane.id] = frozenset((*wholes(lane.ssps), *lane.broadcast))
        return self._read[lane.id]

    def of(self, lane: Lane, ssp: SSP) -> int | None:
        """The lowest offset of a partition that a lane or one of its successors can read next; None if unknown."""
        report = self._reports.get(lane.id)
        at = None if report is None else report.progress.positions.get(str(ssp))
        if at is not None and report is not None and (lane.rewind is None or report.progress.batch >= lane.first_batch):
            return at
        if lane.id not in self._begins_and_ends:
            self._begins_and_ends[lane.id] = lane.begins, lowest(lane.final)
        begins, ends = self._begins_and_ends[lane.id]
        if ssp in ends:
            return ends[ssp]
        places = [begins[ssp]] if ssp in begins else self._of_predecessors(lane, ssp)
        if lane.rewind is not None and str(ssp) in lane.rewind.to:
            places.append(lane.rewind.to[str(ssp)])
        return None if None in places else min((place for place in places if place is not None), default=None)

    def _of_predecessors(self, lane: Lane, ssp: SSP) -> list[int | None]:
        """The results of :meth:`of` for those predecessors of a lane that read the partition. If the lane undoes a
        rewind, the results for the predecessors' own predecessors are included.
        """
        former = [self._known[name] for name in lane.predecessors if name in self._known]
        if lane.rewind is not None and lane.rewind.back:
            former += [self._known[name] for each in former for name in each.predecessors if name in self._known]
        return [self.of(each, ssp) for each in former if ssp in self.read_by(each)]


def common(before: Mapping[int, int], now: Mapping[int, int]) -> dict[int, int]:
    """For each partition in both mappings, the lower of its two offsets. If the mappings are a job's positions at two
    times, the job had, at both times, read everything before the lower offset.
    """
    return {number: min(offset, before[number]) for number, offset in now.items() if number in before}


@dataclass(frozen=True)
class _Turn:
    """The result of one call to :meth:`ReaderPositions._turn` for one stream."""

    revision: str
    """The revision of the job's entry among the stream's readers."""
    positions: Mapping[int, int] | None
    """The lowest offsets that the job still had to read, looked up after ``revision``; None if no lane reads the
    stream.
    """


@dataclass(frozen=True)
class _Place:
    """A stream, its readers, and the revision of the job's entry among these readers."""

    readers: Readers
    system: str
    stream: str
    revision: str


@dataclass
class ReaderPositions:
    """Once a minute, compares each job's positions with the positions a minute earlier, and stores the lower ones. Also
    deletes the records before these lower positions from the job's intermediate streams. Thread-safe.

    The earlier positions count because a power cut can destroy the most recent batches in a lane's folder. The lane
    then reads the records of these batches again. After a rewind, this delay of a minute also keeps the records that
    the job should read again, until the job's lanes report their new positions.

    Args:
        clock: returns the current time in seconds.
    """

    registry: JobRegistry
    systems_of: Callable[[RunningJob], Systems]
    clock: Callable[[], float]
    _due: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _turns: dict[str, dict[tuple[str, str], _Turn]] = field(default_factory=dict)
    _passed: dict[str, Positions] = field(default_factory=dict)
    _told: LastTold = field(default_factory=LastTold)

    def look(self) -> None:
        """Store positions and delete records, unless this was last done less than a minute ago."""
        with self._lock:
            if self.clock() < self._due:
                return
            self._due = self.clock() + _EVERY
            with self.registry.locked_as_seen():
                jobs = list(self.registry.jobs)
            self._turns = {job: turns for job, turns in self._turns.items() if job in jobs}
            self._passed = {job: passed for job, passed in self._passed.items() if job in jobs}
            self._told.keep(lambda about: about[0] in jobs)
            for job in jobs:
                self._turn(job)

    def settle(self, job: str) -> None:
        """Store the last positions of a job that has ended. Also delete the records before these positions from the
        job's intermediate streams. If there is anything to store or delete, first make durable all data that was
        written on this machine.
        """
        with self._lock:
            if self._turn(job):
                os.sync()
                self._turn(job)

    def _turn(self, job: str) -> bool:
        """For each partition, take the lower of a job's positions now and in the previous turn. Store these positions,
        and delete the records before them from the job's intermediate streams. Returns True if there is any
        stream in which positions are stored or records are deleted. If an error occurs, it is only logged, the streams
        keep more records than necessary, and the result is False.
        """
        with self.registry.locked_as_seen():
            served = self.registry.jobs.get(job)
            seen = None if served is None else served.snapshot()
        if seen is None:
            return False
        done = False
        with self._logged("what a job has read can't be stored beside its inputs", job):
            done = self._store_all(job, seen)
        return done  # noqa: RET504  # False after an error

    def _store_all(self, job: str, seen: RunningJob) -> bool:
        systems = self.systems_of(seen)
        purges = self._purge(job, systems)
        places = self._places(systems, job)  # the entries' revisions must be older than the positions
        found, _ = self._unread(job)
        if found is None:
            return False
        before, self._turns[job] = self._turns.get(job, {}), {}
        for place in places:
            key = (place.system, place.stream)
            now = self._turns[job][key] = _Turn(place.revision, found.get(key))
            with self._logged("what a job has read can't be stored beside an input", job, stream=place.stream):
                _store(job, place, before.get(key), now)
        return bool(places) or purges

    def _unread(self, job: str) -> tuple[Positions | None, set[str]]:
        """The lowest offsets that a job still has to read, and its intermediate streams. The result is None and an
        empty set if the job isn't served, while the job is being changed, and while none of a new deployment's lanes
        has begun. In the last two cases, the change or the deployment can still be undone. If it is undone, other lanes
        can continue from where closed lanes ended.
        """
        with self.registry.locked_as_seen():
            served = self.registry.jobs.get(job)
            if served is None or served.state is DeploymentState.CHANGING or _can_return(served):
                return None, set()
            own = stages.intermediate_streams(self.registry.present(served).graph)
            return still_to_read(served.lanes, served.known, served.reports), own

    def _purge(self, job: str, systems: Systems) -> bool:
        """Delete from the job's intermediate streams the records that all lanes had already read by the previous turn.
        Returns whether the lanes read intermediate streams.
        """
        found, own = self._unread(job)
        between = {key: positions for key, positions in (found or {}).items() if key[1] in own}
        passed, self._passed[job] = self._passed.get(job, {}), between
        for (system, stream), positions in between.items():
            with self._logged("records that were read can't be deleted", job, stream=stream):
                _purge(systems, system, stream, common(passed.get((system, stream), {}), positions))
        return bool(between)

    def _places(self, systems: Systems, job: str) -> list[_Place]:
        found: list[_Place] = []
        for system in systems.all:
            readers = system.readers()
            for stream in system.streams() if readers is not None else ():
                assert readers is not None
                with self._logged("whether a job is a reader of an input can't be seen", job, stream=stream):
                    its = readers.of(stream, job)
                    if its is not None:
                        found.append(_Place(readers, system.name, stream, its.revision))
        return found

    @contextmanager
    def _logged(self, what: str, job: str, **about: str) -> Iterator[None]:
        """If the body of ``with`` fails, for example in a system that the user has added, the error isn't raised. It is
        logged, unless the same error was logged last time. The streams then keep more records than necessary until the
        next turn, which tries again."""
        key = (job, what, *about.values())
        try:
            yield
        except Exception as error:
            if self._told.is_new(str(error), key):
                log.warning(what, job=job, **about, error=str(error))
        else:
            self._told.over(key)


def _can_return(job: RunningJob) -> bool:
    """Whether a job's deployment replaces another deployment, and none of the new deployment's lanes has begun yet."""
    mine = [lane for lane in job.lanes if lane.deployment == job.deployment]
    return job.model.replaces > 0 and not any(lane.begun for lane in mine)


def _purge(systems: Systems, system: str, stream: str, before: Mapping[int, int]) -> None:
    """Delete from each partition of an intermediate stream the records before the partition's offset in ``before``."""
    wanted = {partition: offset for partition, offset in before.items() if offset > 0}
    if wanted:
        systems.named(system).purge(stream, wanted)


def _store(job: str, place: _Place, before: _Turn | None, now: _Turn) -> None:
    if before is None or before.revision != now.revision:
        return
    if now.positions is not None and before.positions is not None:
        place.readers.advance(place.stream, job, common(before.positions, now.positions), now.revision)
    elif now.positions is None and before.positions is None:
        place.readers.forget(place.stream, job, now.revision)
