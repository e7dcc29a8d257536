"""The lane record: one streaming query with one folder, immutable except for its state. It is the core of the model."""

from __future__ import annotations

import enum
from collections.abc import Iterable

from anabranch.model.document import Document
from anabranch.model.ssp import SSP

DEFAULT_SYSTEM = "embedded"
"""The system of outputs for which a lane names none. Stored lanes omit it."""


class LaneState(enum.StrEnum):
    """The coordinator's view of a lane's state."""

    PLANNED = "planned"
    RUNNING = "running"
    CLOSING = "closing"
    CLOSED = "closed"
    FAILED = "failed"


class Position(Document, frozen=True, kw_only=True):
    """The offset of the next message to read from one SSP. After a merge, ``parts`` has bucket → offset.

    For a broadcast SSP, ``parts`` has task → offset, for the tasks (at factor 1, with their buckets) that are further
    ahead.
    """

    ssp: SSP
    offset: int
    parts: dict[str, int] = {}


class Rewind(Document, frozen=True, kw_only=True):
    """How a lane begins at other offsets than those at which its predecessor ended.

    ``to``: the next offset to read, by whole SSP in text form. If the predecessor hadn't reached it, the lane begins
    where the predecessor ended. ``clear``: the lane begins without state. In a stream between two stages, it then skips
    everything that had been written when all of the stream's writers, ``after``, were closed. ``back``: undo a rewind,
    as if the rewound lane that this lane follows had never existed.
    """

    to: dict[str, int] = {}
    clear: bool = False
    after: tuple[str, ...] = ()
    back: bool = False


class AfterDrain(Document, frozen=True, kw_only=True):
    """The initial event time of a lane in a job that was drained before: the same as if nothing had come before."""

    state: str = ""
    """The drained lane whose state it copies; empty: it begins without state."""
    writers: tuple[str, ...] = ()
    """The lanes that have written the streams between stages so far. Their reports no longer count."""


class Lane(Document, frozen=True, kw_only=True):
    """One streaming query for a part of one stage and a fixed set of tasks (docs/contributing/architecture.md).

    ``outputs``: the streams that the lane writes, with the partition counts that it uses for its whole life.
    ``systems``: the systems of those that aren't in the embedded log. ``dead_letters``: for each stream that it reads,
    the stream for records that could not be processed. ``reports`` names the reads whose unreadable records this lane
    writes there; only one of the lanes that read them does. ``put_aside``: how many dead letters it had written when it
    last ended. ``last_batch``: the last batch that was committed by then. ``beside``: the lanes that write the same
    streams together with it, including itself, each with the lanes whose event time it reports: its predecessors, and
    in place of any that never had a batch, the predecessors of that one. ``group``: the output group (``outputs``) or
    the stateful operator that the lane runs. ``slots``: the sorted list into which slot numbers are indexes.
    ``folder_epoch``: the epoch under which its present folder was made, 0 while it has none. ``ran``: its query has run
    in that folder. ``begun``: its query may have run, so something may have been written.

    ``factor``: how many buckets the partitions of its SSPs are divided into. ``numbers``: for each whole partition that
    it reads, the number of the task (at factor 1) that reads it; ``bases``: the numbers of all its tasks. ``buckets``:
    with a broadcast input, the tasks that it has only in part, each with its buckets. ``rejecting``: the operators that
    may write dead letters.

    ``matched``: the streams of its inputs that are bound to patterns, by the job's name for the input, in the order in
    which they appeared, which is also the order of the offsets in its folder.

    ``base``: for each of its SSPs, the partition under which the state of its keys was first written. ``fresh``: the
    whole partitions that no lane has read before, which it reads from their beginning.

    A lane that continues from others has ``predecessors``. Once they are closed, ``starting`` says where the lane
    begins, and ``inherits`` under which epochs their folders were made. A stateful lane has a copy of its predecessor's
    folder; the batches before ``first_batch`` aren't its own.

    ``added``: the whole partitions that none of its predecessors has read; they begin where the ``read`` says.
    ``afresh``: the lane does what none of its predecessors has done: it has no state, and begins where the most
    advanced of them ended.

    ``drained``: the lane belongs to the deployment after a drain. It has no predecessors, and ``starting`` and
    ``inherits`` are known from the start.

    ``rewind``: how the lane begins at other offsets than ``starting``. ``wrote``: where the intermediate streams that
    it writes ended when it ended, by SSP in text form.

    ``unfenced``: the process that had the lane may still write, so no process may continue it before it is fenced at
    its outputs. ``abandoned``: that process may also still write to the folder, so the lane continues in a copy.
    """

    id: str
    job: str
    deployment: int
    stage: str
    group: str
    seat: str
    tasks: tuple[str, ...]
    ssps: tuple[SSP, ...]
    broadcast: tuple[SSP, ...] = ()
    matched: dict[str, tuple[str, ...]] = {}
    base: dict[str, SSP] = {}
    fresh: tuple[SSP, ...] = ()
    slots: tuple[str, ...] = ()
    predecessors: tuple[str, ...] = ()
    upstream: tuple[str, ...] = ()
    beside: dict[str, tuple[str, ...]] = {}
    outputs: dict[str, int] = {}
    systems: dict[str, str] = {}
    dead_letters: dict[str, str] = {}
    reports: tuple[str, ...] = ()
    rejecting: tuple[str, ...] = ()
    stateful: bool = False
    factor: int = 1
    numbers: dict[str, int] = {}
    bases: tuple[int, ...] = ()
    buckets: dict[str, tuple[int, ...]] = {}
    added: tuple[SSP, ...] = ()
    afresh: bool = False
    rewind: Rewind | None = None
    drained: AfterDrain | None = None
    starting: tuple[Position, ...] = ()
    inherits: dict[str, int] = {}
    first_batch: int = 0
    state_partitions: int = 4
    format: int = 1
    state: LaneState = LaneState.PLANNED
    epoch: int = 0
    folder_epoch: int = 0
    ran: bool = False
    begun: bool = False
    unfenced: bool = False
    abandoned: bool = False
    final: tuple[Position, ...] = ()
    last_batch: int = -1
    watermark: int | None = None
    put_aside: int = 0
    wrote: dict[str, int] = {}
    error: str | None = None

    @property
    def waits_for(self) -> tuple[str, ...]:
        """The lanes that must be closed before its start is known."""
        return self.predecessors if self.rewind is None else (*self.predecessors, *self.rewind.after)

    @property
    def speaks_for(self) -> tuple[str, ...]:
        """The lanes whose event time this lane reports in their place."""
        return self.beside.get(self.id, self.predecessors)

    @property
    def was_silent(self) -> bool:
        """For a closed lane: whether it has committed no batch of its own, so that no lane has received a report from
        it.
        """
        return self.last_batch < self.first_batch

    @property
    def start_is_known(self) -> bool:
        """Whether the lane's start offsets are known: it has no predecessors, or all of them have closed and where they
        ended is stored. Whether a lane may start depends on more: ``coordinator/jobs/offers.py`` decides that.
        """
        return not self.predecessors or bool(self.starting)

    @property
    def begins(self) -> dict[SSP, int]:
        """Where the lane begins to read whole partitions, as far as that depends on other lanes; some SSPs may begin
        later.
        """
        found: dict[SSP, int] = {}
        for position in self.starting:
            whole = position.ssp.whole
            found[whole] = min(position.offset, found.get(whole, position.offset))
        return found

    def streams_of(self, stream: str) -> tuple[str, ...]:
        """The streams of a ``read``, by the job's name for it."""
        return self.matched.get(stream, (stream,))

    def system(self, stream: str) -> str:
        """The system of a stream that the lane writes."""
        return self.systems.get(stream, DEFAULT_SYSTEM)


def open_lanes(lanes: Iterable[Lane]) -> list[Lane]:
    """The lanes that aren't closed."""
    return [lane for lane in lanes if lane.state is not LaneState.CLOSED]
