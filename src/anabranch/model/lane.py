"""The lane record: one streaming query with one folder, immutable but for its state. The heart of the model."""

from __future__ import annotations

import enum

from anabranch.model.document import Document
from anabranch.model.ssp import SSP


class LaneState(enum.StrEnum):
    """What the coordinator holds to be true of a lane."""

    PLANNED = "planned"
    RUNNING = "running"
    CLOSING = "closing"
    CLOSED = "closed"
    FAILED = "failed"


class Position(Document, frozen=True, kw_only=True):
    """The offset of the next message to read of one SSP; ``parts`` holds bucket → offset after a merge."""

    ssp: SSP
    offset: int
    parts: dict[str, int] = {}


class Lane(Document, frozen=True, kw_only=True):
    """One streaming query for a part of one stage and a fixed set of tasks (DESIGN.md section 2).

    ``outputs``: the streams it writes, with the partition counts that it writes them by for all its life;
    ``systems``: the system of each of them that isn't in the embedded one.
    ``dead_letters``: for each stream that it reads, the stream that takes what could not be processed;
    ``reports`` names the reads whose unreadable records this lane puts there: of all lanes that read them, one does.
    ``put_aside``: how many records were there of it when it last ended.
    ``beside``: the lanes that write the same streams together with it, itself included, with the predecessors of each.
    ``group`` names the output group (``outputs``) or the stateful operator that the lane runs. ``slots`` is the
    sorted list that slot numbers index. ``folder_epoch`` is the epoch under which its present folder was made,
    0 while it has none; ``ran``: its query has run in it.

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
    base: dict[str, SSP] = {}
    slots: tuple[str, ...] = ()
    predecessors: tuple[str, ...] = ()
    upstream: tuple[str, ...] = ()
    beside: dict[str, tuple[str, ...]] = {}
    outputs: dict[str, int] = {}
    systems: dict[str, str] = {}
    dead_letters: dict[str, str] = {}
    reports: tuple[str, ...] = ()
    starting: tuple[Position, ...] = ()
    state_partitions: int = 4
    format: int = 1
    state: LaneState = LaneState.PLANNED
    epoch: int = 0
    folder_epoch: int = 0
    ran: bool = False
    unfenced: bool = False
    abandoned: bool = False
    final: tuple[Position, ...] = ()
    watermark: int | None = None
    put_aside: int = 0
    error: str | None = None

    def system(self, stream: str) -> str:
        """The system of a stream that it writes."""
        return self.systems.get(stream, "embedded")
