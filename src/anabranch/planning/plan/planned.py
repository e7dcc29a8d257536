"""The parts of a plan, as plain data."""

from __future__ import annotations

from anabranch.model.document import Document
from anabranch.model.job_model import JobModel
from anabranch.model.ssp import SSP
from anabranch.model.traffic import Traffic

__all__ = ["Output", "Plan", "PlannedLane"]


class PlannedLane(Document, frozen=True, kw_only=True):
    """A lane before it has an id. Fields that aren't explained here are those of :class:`anabranch.model.lane.Lane`.

    Attributes:
        operators: the lane's operators, without its sources.
        streams: the streams that the lane's group reads.
        upstream: the lanes that write this lane's inputs, as indexes into the plan's ``lanes``.
        rejecting: the operators that can write dead letters.
    """

    stage: str
    group: str
    seat: str
    operators: tuple[str, ...]
    streams: tuple[str, ...]
    stateful: bool
    tasks: tuple[str, ...]
    ssps: tuple[SSP, ...]
    broadcast: tuple[SSP, ...] = ()
    matched: dict[str, tuple[str, ...]] = {}
    base: dict[str, SSP] = {}
    numbers: dict[str, int] = {}
    bases: tuple[int, ...] = ()
    buckets: dict[str, tuple[int, ...]] = {}
    upstream: tuple[int, ...] = ()
    outputs: dict[str, int] = {}
    systems: dict[str, str] = {}
    rejecting: tuple[str, ...] = ()
    dead_letters: dict[str, str] = {}
    reports: tuple[str, ...] = ()


class Output(Document, frozen=True, kw_only=True):
    """An output and its promise.

    Attributes:
        stream: the name of the stream. For a table, this is the name of the output. For a ``foreach_batch``, it is
            None.
        partitions: the partition count of the stream. If the stream doesn't exist, it is created with this count. If
            the output isn't a stream, the number means nothing.
        dead_letters: whether the output is a dead-letter stream. If so, ``operator`` is the source of its records.
    """

    operator: str
    stage: str
    promise: str
    system: str | None = None
    stream: str | None = None
    partitions: int = 0
    intermediate: bool = False
    dead_letters: bool = False


class Plan(Document, frozen=True, kw_only=True):
    """The plan that ``anabranch plan`` shows, and that is used to start or deploy a job.

    Attributes:
        reads_per_ssp: for each whole SSP, in text form, how many lanes read it.
        warnings: messages about behavior that might surprise the user.
        traffic: the traffic between racks; None if racks aren't known.
    """

    model: JobModel
    lanes: tuple[PlannedLane, ...]
    outputs: tuple[Output, ...]
    reads_per_ssp: dict[str, int]
    warnings: tuple[str, ...] = ()
    traffic: Traffic | None = None
