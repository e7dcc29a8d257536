"""What a container reports about each of its lanes.

Offsets are by whole SSP in text form. A field has another name than those of all other parts of a report, so that
:meth:`LaneReport.changed` and :mod:`anabranch.protocol.flat_report` find it by its name alone.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any, Self

import msgspec

from anabranch.model.document import Document
from anabranch.pace.batch_cost import BatchCost

__all__ = [
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


class LanePhase(enum.StrEnum):
    """The phase of a lane in its container."""

    STARTING = "starting"
    RUNNING = "running"
    ENDED = "ended"
    """Stopped at a batch boundary: its positions are final."""
    FAILED = "failed"


class BatchPhase(enum.StrEnum):
    """What a running batch is waiting for."""

    READING = "reading"
    FUNCTIONS = "functions"
    STATE = "state"
    PUBLISHING = "publishing"
    COMMITTING = "committing"
    OTHER = "other"
    """A phase that this program doesn't know, because the container is newer. The phase is only displayed, so the
    heartbeat isn't refused, as it would be for an unknown :class:`LanePhase`."""

    @classmethod
    def _missing_(cls, value: object) -> BatchPhase:
        return cls.OTHER


class BatchProgress(Document, frozen=True, kw_only=True):
    """The progress of a lane's batch, from when it is planned until it is committed."""

    number: int
    """The batch's number."""
    planned: int
    """The records that the batch reads."""
    done: int = 0
    """The records that have passed the operator that is furthest behind."""
    phase: BatchPhase = BatchPhase.READING
    """What the batch is waiting for at the moment."""
    seconds: float = 0.0
    """The time since the batch was planned."""
    rows_per_second: float = 0.0
    left: float | None = None
    """The seconds until the batch ends, estimated from its own speed; None if it isn't known yet."""
    spent: dict[str, float] = {}
    """The seconds since the batch was planned, by phase."""
    buckets: dict[str, int] = {}
    """The finished records of the buckets that are furthest behind, by SSP with its bucket in text form."""


class AttemptReport(Document, frozen=True, kw_only=True):
    """A lane's life in this container: its attempts, and what it waits for."""

    begun: bool = False
    """Whether the lane's query has started in this container."""
    run: str = ""
    """Spark's id of the query's run, which is different each time the query is started."""
    folder_epoch: int = 0
    """The epoch under which the lane's folder was made."""
    number: int = 1
    """How many times the container has started the lane."""
    trouble: str = ""
    """Why the lane was last restarted."""
    awaits: str = ""
    """What the lane waits for in its surroundings."""
    awaits_since: float = 0.0
    """When that wait began, in seconds since 1970."""
    stalls: int = 0
    """How many times it was restarted because it made no progress."""
    waits: str = ""
    """What keeps a closing lane from ending."""
    stopped: bool = False
    """Whether the lane ended because its container stops. It may have more to do."""
    pending: bool = False
    """Whether the lane ended before it finished what it had to finish."""


class ProgressReport(Document, frozen=True, kw_only=True):
    """How far a lane has come in its inputs, and what it has written."""

    batch: int = -1
    """The last committed batch; -1 for none."""
    batch_progress: BatchProgress | None = None
    """The progress of the running batch; None between two batches."""
    positions: dict[str, int] = {}
    """The next offsets to read."""
    ends: dict[str, int] = {}
    """The known ends of the inputs, for the lag."""
    ends_known: bool = True
    """Whether ``ends`` are current. If False, they can't be looked up at present, and are the last known ones."""
    wrote: dict[str, int] = {}
    """Where the intermediate streams that the lane writes ended, once the lane has ended."""
    rows: int = 0
    """The records read since the lane started."""
    first_output: float = 0.0
    """When the first batch that read anything was committed, in seconds since 1970; 0.0 if there was none yet."""
    last_output: float = 0.0
    """When the last batch that read anything was committed, in seconds since 1970; 0.0 if there was none yet."""
    dead_letters: int = 0
    """All dead letters that the lane ever wrote."""
    state_bytes: int = 0
    """The size of the files with the lane's state."""


class BatchTimes(Document, frozen=True, kw_only=True):
    """The time that a lane's batches take, in seconds, as the last ones have shown."""

    fixed: float
    """The time that doesn't depend on their records."""
    per_record: float
    """The time that the job's functions take for each record."""


class LoadReport(Document, frozen=True, kw_only=True):
    """How well a lane keeps up, and what takes its time."""

    seconds: float = 0.0
    """The duration of the last batch."""
    batch_times: BatchTimes | None = None
    """What takes the time of batches; None: unknown, or functions take none of it."""
    spent: dict[str, float] = {}
    """Where the time of the last batch was spent, in seconds by phase, if it was a long one."""
    rows_per_second: float = 0.0
    usual_seconds: float = 0.0
    """The median duration of batches."""
    limit: int = 0
    """How many records the next batch may have; 0: unknown."""
    sequential: bool = False
    """Whether the lane's functions process one key after another (``process``), so that a higher factor doesn't speed
    them up."""
    repeats: str = ""
    """What would be written twice if the running batch were run again. A change waits for such a batch. Empty: the
    batch can be broken off.
    """
    span: float = 0.0
    """The seconds, about half a minute, over which ``busy``, ``working`` and ``arriving`` are measured; 0 if there are
    no measurements yet."""
    busy: float = 0.0
    """The share of the span in which a batch ran."""
    working: float = 0.0
    """The share of the span in which Python functions worked on the bucket that kept them busiest."""
    arriving: float = 0.0
    """The records that arrived, per second."""
    slowest: str = ""
    """The SSP on which Python functions spent most time in the last batches."""
    slowest_seconds: float = 0.0
    """The time that they spent on it."""
    skew: float = 0.0
    """``slowest_seconds`` divided by the mean over all SSPs."""

    @property
    def cost(self) -> BatchCost | None:
        """How long batches take, depending on their records; None: unknown."""
        return None if self.batch_times is None else BatchCost(self.batch_times.fixed, self.batch_times.per_record)


class EventTimeReport(Document, frozen=True, kw_only=True):
    """How far a lane is in event time, and which records came too late."""

    watermark: int | None = None
    """The watermark in Unix ms; None: it isn't known, or the lane has none."""
    held_by: str | None = None
    """The SSP that holds the watermark back."""
    idle: tuple[str, ...] = ()
    """The SSPs that don't hold the watermark back because they have no new records."""
    dropped: int = 0
    """The late records that were dropped since the lane started."""
    late_groups: int = 0
    """The groups of late rows since the lane started."""
    late: dict[str, int] = {}
    """The late rows that became dead letters since the lane started, by SSP."""


class DrainReport(Document, frozen=True, kw_only=True):
    """How far a draining lane has come."""

    halted: str = ""
    """The drain (its ``uuid``) for which the lane has read everything that it should so far; ``positions`` are then
    final.
    """
    drained: bool = False
    """Whether the lane has ended permanently."""
    windows: int = 0
    """The rows of state that are still to be written at the end, for example one for each window and key."""
    stuck: str = ""
    """The message that a function has been working on for a second or more."""
    overdue: bool = False
    """Whether the function has been working on it for longer than it may."""


class LaneReport(Document, frozen=True, kw_only=True):
    """What a container reports about a lane."""

    lane: str
    """The lane's id."""
    phase: LanePhase
    error: str | None = None
    """Why the lane failed."""
    fenced: bool = False
    """Whether the lane failed because another process runs it."""
    warnings: tuple[str, ...] = ()
    """Problems that a user should look at, although the lane keeps running."""

    attempt: AttemptReport = AttemptReport()
    progress: ProgressReport = ProgressReport()
    load: LoadReport = LoadReport()
    event_time: EventTimeReport = EventTimeReport()
    drain: DrainReport = DrainReport()

    @classmethod
    def upgraded(cls, value: dict[str, Any]) -> dict[str, Any]:
        """Older containers and coordinators have the fields of all parts side by side."""
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

    def changed(self, **fields: Any) -> Self:
        """The report with other values of some fields, in whichever part they are."""
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
"""The parts of a report, by the field that has them."""

PART_OF: Mapping[str, str] = {
    field: part for part, kind in PARTS.items() for field in kind.__struct_fields__ if field != "extra"
}
"""The part that has a field."""

FLAT_NAMES: Mapping[str, str] = {**{field: field for field in PART_OF}, "number": "attempt"}
"""What a field of a part is called where all fields are side by side."""

_FLAT: Mapping[str, tuple[str, str]] = {
    "attempt" if name == "number" else name: (LaneReport.__struct_encode_fields__[index], name)
    for index, part in enumerate(LaneReport.__struct_fields__)
    if part in PARTS
    for name in PARTS[part].__struct_encode_fields__
    if name != "extra"
}
"""A field's part and name by its flat name, all as in JSON."""
