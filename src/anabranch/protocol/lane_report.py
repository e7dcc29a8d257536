"""What a container reports about each of its lanes.

Offsets are keyed by whole SSPs such as ``kafka/flights/3``. No two parts of a report have a field of the same name
(except ``extra``), so :meth:`LaneReport.changed` and :mod:`anabranch.protocol.flat_report` find a field by its name
alone.
"""

from __future__ import annotations

import enum
import heapq
from collections.abc import Mapping
from typing import Any, Self

import msgspec

from anabranch.model.document import Document
from anabranch.pace.batch_cost import BatchCost

__all__ = [
    "EARLIEST",
    "FLAT_NAMES",
    "PARTS",
    "PART_OF",
    "AttemptReport",
    "BatchPhase",
    "BatchProgress",
    "BatchTimes",
    "DrainReport",
    "EventTimeReport",
    "LanePhase",
    "LaneReport",
    "LoadReport",
    "ProgressReport",
]


EARLIEST = 3
"""How many of the lowest SSP watermarks a brief report contains, in addition to the highest."""


class LanePhase(enum.StrEnum):
    """The phase of a lane in its container."""

    STARTING = "starting"
    RUNNING = "running"
    ENDED = "ended"
    """The lane has ended in this container: at a batch boundary, unless :attr:`AttemptReport.pending` is true."""
    FAILED = "failed"


class BatchPhase(enum.StrEnum):
    """What a running batch is waiting for."""

    READING = "reading"
    FUNCTIONS = "functions"
    STATE = "state"
    PUBLISHING = "publishing"
    COMMITTING = "committing"
    OTHER = "other"
    """A phase that only newer containers know. An unknown phase of a batch isn't an error, because it affects only what
    is displayed and what the autosizer estimates. By contrast, a heartbeat with an unknown :class:`LanePhase` is
    refused.
    """

    @classmethod
    def _missing_(cls, value: object) -> BatchPhase:
        return cls.OTHER


class BatchProgress(Document, frozen=True, kw_only=True):
    """The progress of a lane's batch, from planning to commit."""

    number: int
    """The batch's number."""
    planned: int
    """How many records the batch reads."""
    done: int = 0
    """How many of the batch's records have passed the operator that is furthest behind."""
    phase: BatchPhase = BatchPhase.READING
    """What the batch is waiting for at the moment."""
    seconds: float = 0.0
    """The seconds since the batch was planned."""
    rows_per_second: float = 0.0
    left: float | None = None
    """The seconds until the batch ends, estimated from its speed so far; None if not known yet."""
    spent: dict[str, float] = {}
    """The seconds that the batch has spent in each phase since it was planned."""
    buckets: dict[str, int] = {}
    """How many rows the slowest function has finished in each of the buckets that are furthest behind. The keys are
    SSPs in text form, including the bucket.
    """


class AttemptReport(Document, frozen=True, kw_only=True):
    """A lane's attempts in this container, and what the lane waits for."""

    begun: bool = False
    """Whether the lane's query has started in this container."""
    run: str = ""
    """Spark's run id of the lane's query. Each start of the query gets a new id."""
    folder_epoch: int = 0
    """The epoch under which the lane's folder was made."""
    number: int = 1
    """How many times the container has started the lane. A restart doesn't count if the lane was waiting for something
    outside the job, such as a broker.
    """
    trouble: str = ""
    """Why the lane was last restarted."""
    awaits: str = ""
    """Something outside the job for which the lane is waiting, such as a system that can't be reached."""
    awaits_since: float = 0.0
    """When the wait for ``awaits`` began, in seconds since 1970."""
    stalls: int = 0
    """How many times the lane was restarted because it made no progress."""
    waits: str = ""
    """What keeps a closing lane from ending."""
    stopped: bool = False
    """Whether the lane may have more work to do, for one of two reasons: it was told to end before it had caught up or
    drained; or it failed, and another process will run it.
    """
    pending: bool = False
    """Whether the lane left work unfinished, for one of three reasons: it ended with a pending batch; it ended before
    its query had ever started; or it failed, and another process will run it.
    """


class ProgressReport(Document, frozen=True, kw_only=True):
    """How far a lane has read its inputs, and what it has written."""

    batch: int = -1
    """The last committed batch; -1 for none."""
    batch_progress: BatchProgress | None = None
    """The progress of the running batch; None between two batches."""
    positions: dict[str, int] = {}
    """The next offsets to read."""
    ends: dict[str, int] = {}
    """The end offsets of the inputs."""
    ends_known: bool = True
    """Whether ``ends`` is current. If not, the end offsets can't be looked up at the moment, and ``ends`` contains the
    last known offsets.
    """
    wrote: dict[str, int] = {}
    """The end offsets of the intermediate streams that the lane writes, at the time of the lane's end; empty if the
    readers of these streams needn't know that the lane has ended.
    """
    rows: int = 0
    """How many records the lane has read in the current attempt."""
    first_output: float = 0.0
    """When the current attempt published its first batch with records, in seconds since 1970; 0.0 if there was none
    yet.
    """
    last_output: float = 0.0
    """When the current attempt published its last batch with records, in seconds since 1970; 0.0 if there was none yet.
    """
    dead_letters: int = 0
    """How many dead letters the lane has written in total. Before the first batch of an attempt, this number may lack
    dead letters from processes that were killed.
    """
    state_bytes: int = 0
    """The size of the files with the lane's state."""
    replay_seconds: float = 0.0
    """The estimated seconds that a successor needs to replay the changes since the last snapshot of the state."""

    @property
    def lags(self) -> dict[str, int]:
        """The number of offsets between a position and the end offset, by SSP, for each end offset that is known."""
        return {ssp: max(0, end - self.positions.get(ssp, 0)) for ssp, end in self.ends.items()}

    @property
    def lag(self) -> int:
        """The sum of the lags; 0 if no end offset is known."""
        return sum(self.lags.values())


class BatchTimes(Document, frozen=True, kw_only=True):
    """An estimate of how long a lane's batches take, based on the most recent batches. Times are in seconds."""

    fixed: float
    """The part that doesn't depend on the number of records."""
    per_record: float
    """The time that the job's functions take for each record."""
    tasks: int = 0
    """How many Spark tasks run one of these functions at the same time; 0 if unknown."""


class LoadReport(Document, frozen=True, kw_only=True):
    """How well a lane keeps up, and how it spends its time."""

    seconds: float = 0.0
    """The duration of the last batch."""
    batch_times: BatchTimes | None = None
    """How long batches take, depending on the number of their records; None if this is unknown, or if no time is spent
    in functions.
    """
    spent: dict[str, float] = {}
    """The seconds that the last batch spent in each phase, if the batch was long."""
    rows_per_second: float = 0.0
    usual_seconds: float = 0.0
    """The median duration of the most recent batches."""
    limit: int = 0
    """The maximum number of records in the next batch; 0 if unknown."""
    sequential: bool = False
    """Whether the lane's functions process one key after another, as ``process`` does. If so, a higher factor doesn't
    speed them up.
    """
    repeats: str = ""
    """The outputs that would be written twice, or the functions that would be called twice, if the running batch were
    broken off and run again. If there are any, a change waits for the batch. Empty if the batch can be broken off.
    """
    slots: int = 0
    """The number of slots of the lane's outputs, not counting slots for dead letters; 0 if the outputs have no slots.
    When a change closes the lane, its successors take over the slots before the lane is told to end. If there are
    several slots, parts of a batch can become visible before the batch ends.
    """
    span: float = 0.0
    """The length in seconds of the period over which ``busy``, ``working``, ``arriving`` and ``throughput`` are
    measured: usually about half a minute, but less soon after the start; 0 if nothing has been measured yet.
    """
    busy: float = 0.0
    """The share of ``span`` in which a batch ran."""
    working: float = 0.0
    """The share of ``span`` in which Python functions worked on the bucket that kept them busiest."""
    arriving: float = 0.0
    """How many records arrived per second, over ``span``."""
    throughput: float | None = None
    """How many records were read per second, over ``span``; None if an older version of anabranch runs the lane."""
    slowest: str = ""
    """The SSP on which Python functions spent the most time in the batches that ended last or, if a batch has been
    running for a while, in this batch.
    """
    slowest_seconds: float = 0.0
    """The seconds that Python functions spent on ``slowest``, in the batches for which it was determined."""
    skew: float = 0.0
    """``slowest_seconds`` divided by the mean time over all SSPs on which Python functions worked."""

    @property
    def reading(self) -> float:
        """The records that the lane reads per second; if this isn't known, the records per second in the last batch."""
        return self.rows_per_second if self.throughput is None or not self.span else self.throughput

    @property
    def gradual(self) -> bool:
        """Whether parts of a batch can become visible before the batch ends."""
        return self.slots > 1

    @property
    def cost(self) -> BatchCost | None:
        """The duration of a batch as a function of its number of records; None if unknown."""
        return None if self.batch_times is None else BatchCost(self.batch_times.fixed, self.batch_times.per_record)

    def batch_seconds(self, records: int) -> float:
        """The expected duration of a batch with ``records`` records; if this is unknown, the usual duration."""
        return self.usual_seconds if self.cost is None else self.cost.seconds(records)


class EventTimeReport(Document, frozen=True, kw_only=True):
    """The lane's progress in event time, and the rows that came too late."""

    watermark: int | None = None
    """The watermark in Unix ms; None if it isn't known, or if the lane has none."""
    held_by: str | None = None
    """The SSP that holds the watermark back."""
    idle: tuple[str, ...] = ()
    """The idle SSPs, which don't hold the watermark back."""
    times: dict[str, int] = {}
    """The watermark of each SSP that has one, in Unix ms. Unless the container was told that somebody is looking at
    partitions, heartbeats contain only a few of these watermarks: see :meth:`LaneReport.brief`.
    """
    dropped: int = 0
    """How many rejected rows were dropped, rather than written as dead letters, in the current attempt."""
    late_groups: int = 0
    """How many groups of late rows Spark has dropped in the current attempt. (Spark groups rows before it drops late
    rows.)
    """
    late: dict[str, int] = {}
    """How many late rows became dead letters in the current attempt, by SSP."""


class DrainReport(Document, frozen=True, kw_only=True):
    """The progress of a lane's drain."""

    halted: str = ""
    """The ``uuid`` of the drain, if the lane has read everything that the current step of the drain requires;
    otherwise empty. If set, the report's ``positions`` show where the lane has stopped.
    """
    drained: bool = False
    """Whether the lane has ended permanently."""
    windows: int = 0
    """How many rows of state are still to be emitted, for example one for each window and key."""
    stuck: str = ""
    """A description of the message on which a function has been working for a second or more."""
    overdue: bool = False
    """Whether the function in ``stuck`` has been working on its message for more than a minute, in a job without
    ``message_timeout``. ``anabranch drain`` then stops waiting.
    """


class LaneReport(Document, frozen=True, kw_only=True):
    """What a container reports about a lane."""

    lane: str
    """The lane's id."""
    phase: LanePhase
    error: str | None = None
    """Why the lane failed."""
    fenced: bool = False
    """Whether the lane failed because it was fenced, for example because another process is running it."""
    warnings: tuple[str, ...] = ()
    """Problems that a user should look at, although the lane keeps running."""

    attempt: AttemptReport = AttemptReport()
    progress: ProgressReport = ProgressReport()
    load: LoadReport = LoadReport()
    event_time: EventTimeReport = EventTimeReport()
    drain: DrainReport = DrainReport()

    @classmethod
    def upgraded(cls, value: dict[str, Any]) -> dict[str, Any]:
        """Convert a parsed report to the current form. Older containers and coordinators send the fields of all parts
        directly in the report.
        """
        flat = value.keys() & _FLAT.keys()
        if isinstance(value.get("attempt"), dict):  # the part; in the flat form, a number
            flat = flat - {"attempt"}
        if not flat:
            return value
        report = {name: each for name, each in value.items() if name not in flat}
        for name in flat:
            part, field = _FLAT[name]
            report[part] = {**report.get(part, {}), field: value[name]}
        return report

    def brief(self) -> Self:
        """A form of the report that stays short even if the lane has thousands of SSPs. It has at most
        :data:`EARLIEST` + 1 watermarks of SSPs: the lowest ones and the highest.
        """
        times = self.event_time.times
        if len(times) <= EARLIEST + 1:
            return self
        kept = (*heapq.nsmallest(EARLIEST, times, key=times.__getitem__), max(times, key=times.__getitem__))
        return self.changed(times={ssp: times[ssp] for ssp in kept})

    def changed(self, **fields: Any) -> Self:
        """A copy of the report with new values for some fields, which can be in any part."""
        changes: dict[str, Any] = {}
        parts: dict[str, dict[str, Any]] = {}
        for name, value in fields.items():
            if (part := PART_OF.get(name)) is None:
                changes[name] = value
            else:
                parts.setdefault(part, {})[name] = value
        changes |= {part: msgspec.structs.replace(getattr(self, part), **its) for part, its in parts.items()}
        return msgspec.structs.replace(self, **changes)


PARTS: Mapping[str, type[Document]] = {
    "attempt": AttemptReport,
    "progress": ProgressReport,
    "load": LoadReport,
    "event_time": EventTimeReport,
    "drain": DrainReport,
}
"""The types of a report's parts, by the field of the report that contains the part."""

PART_OF: Mapping[str, str] = {
    field: part for part, kind in PARTS.items() for field in kind.__struct_fields__ if field != "extra"
}
"""The part of a report that contains a field, by the field's name."""

FLAT_NAMES: Mapping[str, str] = {**{field: field for field in PART_OF}, "number": "attempt"}
"""For each field of a part, the field's name in the flat form of a report, which has no parts."""

_FLAT: Mapping[str, tuple[str, str]] = {
    "attempt" if name == "number" else name: (LaneReport.__struct_encode_fields__[index], name)
    for index, part in enumerate(LaneReport.__struct_fields__)
    if part in PARTS
    for name in PARTS[part].__struct_encode_fields__
    if name != "extra"
}
"""For each field of the flat form, the part that contains the field, and the field's name in this part. All names are
the names in JSON.
"""
