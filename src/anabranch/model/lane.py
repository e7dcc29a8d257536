"""The lane record: one streaming query with one folder, immutable but for its state. The heart of the model."""

from __future__ import annotations

import enum
from collections.abc import Iterable

from anabranch.model.document import Document
from anabranch.model.ssp import SSP

DEFAULT_SYSTEM = "embedded"
"""The system of outputs for which a lane names none: stored lanes leave it out."""


class LaneState(enum.StrEnum):
    """What the coordinator holds to be true of a lane."""

    PLANNED = "planned"
    RUNNING = "running"
    CLOSING = "closing"
    CLOSED = "closed"
    FAILED = "failed"


class Position(Document, frozen=True, kw_only=True):
    """The offset of the next message to read of one SSP; ``parts`` holds bucket → offset after a merge.

    Of a broadcast SSP they are task → offset, of the tasks (at factor 1, and buckets of them) that are further.
    """

    ssp: SSP
    offset: int
    parts: dict[str, int] = {}


class Rewind(Document, frozen=True, kw_only=True):
    """How a lane begins elsewhere than where the one ended that it goes on from.

    ``to``: the next offset to read, by the texts of whole SSPs; where that one wasn't as far, it goes on from there.
    ``clear``: without its state; what lies between two stages is then left out, up to where it ended when all of
    ``after`` were closed, which wrote it. ``back``: as if the rewound lane that it follows had never been.
    """

    to: dict[str, int] = {}
    clear: bool = False
    after: tuple[str, ...] = ()
    back: bool = False


class AfterDrain(Document, frozen=True, kw_only=True):
    """How a lane of a job that was drained before begins in event time: as if nothing had come before."""

    state: str = ""
    """The drained lane whose state it copies; empty: it begins without state."""
    writers: tuple[str, ...] = ()
    """The lanes that have written the streams between stages so far. What they reported no longer counts."""


class Lane(Document, frozen=True, kw_only=True):
    """One streaming query for a part of one stage and a fixed set of tasks (docs/contributing/architecture.md).

    ``outputs``: the streams it writes, with the partition counts that it writes them by for all its life;
    ``systems``: the system of each of them that isn't in the embedded one.
    ``dead_letters``: for each stream that it reads, the stream that takes what could not be processed;
    ``reports`` names the reads whose unreadable records this lane puts there: of all lanes that read them, one does.
    ``put_aside``: how many records were there of it when it last ended, ``last_batch`` the last one committed then.
    ``beside``: the lanes that write the same streams together with it, itself included, each with those in whose place
    it speaks of event time: its predecessors, and where one of them never had a batch, those before that one.
    ``group`` names the output group (``outputs``) or the stateful operator that the lane runs. ``slots`` is the
    sorted list that slot numbers index. ``folder_epoch`` is the epoch under which its present folder was made,
    0 while it has none; ``ran``: its query has run in it. ``begun``: it may have, so that something may be written.

    ``factor``: into how many buckets the partitions are cut that its SSPs are of. ``numbers`` has, for each whole
    partition that it reads, the number of the task (at factor 1) that reads it, and ``bases`` those of its tasks; with
    a broadcast, ``buckets`` has those that it doesn't have whole, each with the buckets that it has.
    ``rejecting``: the operators that may put records aside.

    ``matched`` has the streams of its inputs that are bound to patterns, by the name that the job has for the input: in
    the order in which they came, which is that of the offsets in its folder.

    ``base`` has, for each of its SSPs, the partition under which the state of its keys was first written. ``fresh``:
    the whole partitions that nobody has read before it, which it reads from their beginning.

    A lane that goes on from others has ``predecessors``. Once they are closed, ``starting`` says where it begins, and
    ``inherits`` under which epochs their folders were made. A stateful one has a copy of its predecessor's folder: the
    batches before ``first_batch`` are not its own.

    ``added``: the whole partitions that none of them has read, which begin where the ``read`` says. ``afresh``: it does
    what none of them has done: without state, it begins where the furthest of them ended.

    ``drained``: of a lane of the deployment after a drain; it has no predecessors, and ``starting`` and ``inherits``
    are known from the first.

    ``rewind``: how it begins elsewhere than there. ``wrote``: where the streams between stages ended that it writes, by
    the texts of SSPs, when it ended itself.

    ``unfenced``: the process that had the lane may still write; nobody may go on before it is fenced at the outputs.
    ``abandoned``: that process may still write to the folder, too: who goes on does so in a copy.
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
        """The lanes that must be closed before it is known where it begins."""
        return self.predecessors if self.rewind is None else (*self.predecessors, *self.rewind.after)

    @property
    def speaks_for(self) -> tuple[str, ...]:
        """The lanes in whose place it speaks of event time."""
        return self.beside.get(self.id, self.predecessors)

    @property
    def was_silent(self) -> bool:
        """Of one that is closed: whether it has committed no batch of its own, so that nobody has heard of it."""
        return self.last_batch < self.first_batch

    @property
    def start_is_known(self) -> bool:
        """Whether its start offsets are known: it has no predecessors, or all of them have closed and what they left is
        stored. Whether a lane may start depends on more: ``coordinator/jobs/offers.py`` decides that.
        """
        return not self.predecessors or bool(self.starting)

    @property
    def begins(self) -> dict[SSP, int]:
        """Where it begins to read whole partitions, as far as that goes by other lanes; some SSPs may begin later."""
        found: dict[SSP, int] = {}
        for position in self.starting:
            whole = position.ssp.whole
            found[whole] = min(position.offset, found.get(whole, position.offset))
        return found

    def streams_of(self, stream: str) -> tuple[str, ...]:
        """The streams that a ``read`` is of, by the name that the job has for it."""
        return self.matched.get(stream, (stream,))

    def system(self, stream: str) -> str:
        """The system of a stream that it writes."""
        return self.systems.get(stream, DEFAULT_SYSTEM)


def open_lanes(lanes: Iterable[Lane]) -> list[Lane]:
    """Those that aren't closed."""
    return [lane for lane in lanes if lane.state is not LaneState.CLOSED]
