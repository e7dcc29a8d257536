"""The lane: what is fixed for its whole life, and its state."""

from __future__ import annotations

import enum
from collections.abc import Iterable

from anabranch.model.document import Document
from anabranch.model.ssp import SSP, wholes

DEFAULT_SYSTEM = "embedded"
"""The system of each output that isn't listed in the lane's ``systems``."""


class LaneState(enum.StrEnum):
    """The state of a lane as the coordinator knows it."""

    PLANNED = "planned"
    RUNNING = "running"
    CLOSING = "closing"
    CLOSED = "closed"
    FAILED = "failed"


class Position(Document, frozen=True, kw_only=True):
    """The position in one SSP. Parts of the SSP's keys can have different offsets. If they do, ``parts`` maps each part
    to its offset, and ``offset`` is the smallest of these offsets. A part is written as ``bucket/factor``.

    A broadcast SSP is read by several tasks, and each part belongs to one of these tasks. Such a part is written as
    ``number:bucket/factor``, with the task's number at factor 1. For a broadcast SSP, ``parts`` contains only parts
    whose offsets are above ``offset``.
    """

    ssp: SSP
    offset: int
    parts: dict[str, int] = {}


class Rewind(Document, frozen=True, kw_only=True):
    """The start offsets and the state of a lane that was made by a rewind or by the undoing of a rewind.

    Attributes:
        to: for each whole SSP, in text form, the next offset to read. If the predecessor hadn't reached this offset,
            the lane begins where the predecessor ended.
        clear: whether the lane begins without state. If so, the lane reads an intermediate stream only from the end
            that the stream had when all lanes in ``after`` were closed.
        after: with ``clear``, all lanes that the rewind closes; empty without ``clear``. All writers of the
            intermediate streams that the lane reads are among them. The lane begins after all of these lanes are
            closed.
        back: whether the lane undoes a rewind. If so, its predecessor is the lane that the rewind made. A stateful lane
            begins where the lane from before the rewind ended. A stateless lane begins at that position or at its
            predecessor's last position, whichever is later.
    """

    to: dict[str, int] = {}
    clear: bool = False
    after: tuple[str, ...] = ()
    back: bool = False


class AfterDrain(Document, frozen=True, kw_only=True):
    """After a drain or a reset: what a lane of the next deployment takes over from earlier lanes. The lane's watermark
    begins as in a new job.
    """

    state: str = ""
    """The drained lane whose state the lane copies; empty if the lane begins without state."""
    writers: tuple[str, ...] = ()
    """The lanes that have so far written the intermediate streams that the lane reads. The reports of these lanes no
    longer count.
    """


class Lane(Document, frozen=True, kw_only=True):
    """One streaming query for one group of a stage and a fixed set of tasks (docs/contributing/architecture.md).

    From predecessors that never had a folder, the lane takes over some attributes. It takes over ``drained``, but
    without ``state`` if the lane is ``afresh``. It takes over ``rewind``, unless the lane has a ``rewind`` of its own.
    If a stateful lane has a single predecessor, and this predecessor never had a folder, the lane also takes over
    ``afresh``.

    Attributes:
        group: the group that the lane runs: ``outputs-`` followed by the kind of its outputs, or the name of a stateful
            operator or of a ``foreach_batch``.
        matched: for each input that is bound to a pattern, the input's streams. The keys are the job's names for these
            inputs. The streams are in the order of :class:`anabranch.model.job_model.Matched`. The offsets in the
            lane's folder have the same order.
        base: for each of ``ssps``, the partition under which the state of its keys was first written.
        fresh: the whole partitions that were added to the stage's inputs after earlier lanes had read these inputs. The
            lane reads each of these partitions from its beginning.
        slots: the names of the lane's slots. Slot numbers are indexes into this list.
        upstream: the lanes that write the intermediate streams that the lane reads.
        beside: maps each co-writer, including the lane itself, to the closed lanes whose event time the co-writer now
            reports. These closed lanes are the co-writer's predecessors. If a predecessor never committed a batch, the
            lanes whose event time that predecessor would have reported are included, too.
        outputs: maps each stream that the lane writes to the stream's partition count, which the lane uses for its
            whole life. Also contains the tables that the lane writes, with a meaningless number.
        systems: maps the name of each output that isn't in the embedded log to the output's system.
        dead_letters: for each input stream from which the lane can write dead letters, the dead-letter stream.
        reports: the sources whose unreadable records this lane writes to dead-letter streams. If several lanes read the
            same records, only one of the lanes writes the unreadable ones.
        rejecting: the names of the operators that can write dead letters, including sources. If an operator's late rows
            can become dead letters, ``<name>-late`` is listed, too.
        numbers: for each whole partition of ``ssps``, the number of the task (at factor 1) that reads it.
        bases: the numbers of all tasks (at factor 1) of the lane.
        buckets: for each task (at factor 1) that belongs to the lane only in part, the buckets that the lane has. Empty
            without a broadcast input.
        added: the whole partitions, except ``fresh`` ones, that no predecessor has read. In each of these partitions,
            the lane begins at the ``start`` that is declared in the stream's ``read``.
        afresh: whether no predecessor has done the lane's work before. If so, the lane begins without state. In each
            SSP, it begins at the highest offset at which a predecessor ended.
        rewind: where and with which state the lane begins, if a rewind, or the undoing of a rewind, has made the lane;
            otherwise None.
        drained: what the lane takes over from the time before a drain or a reset. It is set for the first lanes of the
            deployment that follows. It is also set for lanes that replace a first lane that never began. For all
            other lanes, it is None. A first lane has no predecessors, and its ``starting`` and ``inherits`` are known
            when the lane is made.
        starts_over: the whole partitions in which event time starts over. Event time starts over in a partition if the
            predecessors that had the partition never began, and have no event time to continue from. If there are any
            such partitions, the lane begins without a watermark.
        began_since: with ``starts_over``, the lanes in ``inherits`` that began after event time last started over. In
            the partitions that such a lane read, that lane's event time counts nevertheless.
        starting: where the lane begins; known once all lanes in ``waits_for`` are closed.
        opened: whether ``starting`` and ``inherits`` were determined from closed predecessors.
        inherits: maps each predecessor to the epoch under which the predecessor's folder was made. A predecessor that
            never had a folder is replaced by the entries of its own ``inherits``. Known at the same time as
            ``starting``.
        first_batch: the first batch of the lane itself. If the lane's folder was copied, earlier batches in the folder
            belong to other lanes.
        folder_epoch: the epoch under which the lane's current folder was made; 0 if the lane has no folder.
        ran: whether a query has run in the current folder.
        begun: whether a query might have run, and so might have written output.
        unfenced: whether the process that had the lane might still be writing. If so, the lane must be fenced before
            another process continues it.
        abandoned: whether the process that had the lane might still be writing to the lane's folder. If so, the lane
            continues in a copy of the folder.
        final: for each whole partition, the position at which the lane last ended; empty if the lane has never ended.
        last_batch: the last batch that was committed when the lane last ended; -1 if there is none.
        watermark: the lane's watermark, in Unix ms, when the lane last ended; None if it isn't known.
        put_aside: how many dead letters the lane had written when it last ended.
        wrote: the end offsets that the lane's intermediate output streams had when the lane last ended, by SSP in text
            form.
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
    starts_over: tuple[SSP, ...] = ()
    began_since: tuple[str, ...] = ()
    starting: tuple[Position, ...] = ()
    opened: bool = False
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
        """The lanes that must be closed before it is known where this lane begins."""
        return self.predecessors if self.rewind is None else (*self.predecessors, *self.rewind.after)

    @property
    def speaks_for(self) -> tuple[str, ...]:
        """The closed lanes that this lane replaces. This lane reports the event time of these lanes."""
        return self.beside.get(self.id, self.predecessors)

    @property
    def was_silent(self) -> bool:
        """Whether the lane, when it last ended, had committed no batch of its own. If so, the readers of its outputs
        have no report from the lane."""
        return self.last_batch < self.first_batch

    def took_outputs(self, committed: int) -> bool:
        """Whether the lane is known to have taken over its outputs before. If so, the outputs must have its markers.
        ``committed`` is the last batch that was committed in the lane's folder; -1 if there is none.
        """
        return self.ran or committed >= self.first_batch

    @property
    def start_is_known(self) -> bool:
        """Whether the lane's start offsets are known. For a lane without predecessors, they are always known. For any
        other lane, they are known once all lanes in ``waits_for`` have closed, and the store has the offsets at which
        the predecessors ended.
        """
        return not self.predecessors or self.opened or bool(self.starting)

    @property
    def begins(self) -> dict[SSP, int]:
        """The start offset of each whole partition in ``starting``; empty as long as ``starting`` is empty. In some
        buckets of the partition, the lane can begin at a later offset.
        """
        return lowest(self.starting)

    @property
    def partitions(self) -> set[SSP]:
        """The whole partitions that the lane reads, broadcast ones included."""
        return {*wholes((*self.ssps, *self.broadcast))}

    def streams_of(self, stream: str) -> tuple[str, ...]:
        """The streams of the input that the job calls ``stream``. If the input is bound to a pattern, these are the
        streams that the pattern has matched. Without a pattern, the only stream is ``stream`` itself.
        """
        return self.matched.get(stream, (stream,))

    def system(self, stream: str) -> str:
        """The system of a stream that the lane writes."""
        return self.systems.get(stream, DEFAULT_SYSTEM)


def lowest(positions: Iterable[Position]) -> dict[SSP, int]:
    """The lowest offset in each whole partition."""
    found: dict[SSP, int] = {}
    for position in positions:
        whole = position.ssp.whole
        found[whole] = min(position.offset, found.get(whole, position.offset))
    return found


def open_lanes(lanes: Iterable[Lane]) -> list[Lane]:
    """The lanes that aren't closed."""
    return [lane for lane in lanes if lane.state is not LaneState.CLOSED]


def by_deployment(lanes: Iterable[Lane]) -> list[list[Lane]]:
    """The lanes of each deployment, the latest deployment first."""
    found: dict[int, list[Lane]] = {}
    for lane in lanes:
        found.setdefault(lane.deployment, []).append(lane)
    return [found[deployment] for deployment in sorted(found, reverse=True)]
