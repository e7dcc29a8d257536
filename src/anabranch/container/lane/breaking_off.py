"""Decides whether a lane that must end breaks off its running batch instead of waiting for the batch's end."""

from __future__ import annotations

import enum
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic

from anabranch import crash_points, logs
from anabranch.container.checkpoint.folder import Folder
from anabranch.container.checkpoint.lane_folders import LaneFolders
from anabranch.model.lane import Lane
from anabranch.pace.batch_cost import BatchCost
from anabranch.pace.break_off_cost import is_worth_it
from anabranch.protocol.lane_report import BatchProgress
from anabranch.spark.query.gate import Gate

__all__ = [
    "BRIEF",
    "BreakOff",
    "Verdict",
    "estimated",
    "is_brief",
    "is_quiet",
    "runs",
    "taken_back",
    "told",
    "verdict",
]

_PATIENCE, _OVERDUE = 0.5, 2.0
"""The seconds after which a batch is broken off if its remaining time is unknown. ``_PATIENCE`` applies if the usual
duration of batches is unknown. ``_OVERDUE`` applies if the batch has exceeded the usual duration. ``_OVERDUE`` is
longer because an overdue batch usually ends soon. The usual reason for the delay is that the machine is busy, above all
while the successors' queries start.
"""
BRIEF = 1.0
"""A batch that takes fewer seconds than this counts as brief. A brief batch hardly delays a change, and the
successors' queries can start while it runs."""
_LOOK = 0.02
_writers: dict[str, threading.Event] = {}
"""For each folder, a ``threading.Event`` of the newest query that this process has run in the folder. The event is set
while the query is writing a batch."""

log = logs.get_logger()


class Verdict(enum.Enum):
    """What happens to the running batch."""

    WAIT = "it ends by itself"
    LOOK = "it isn't known yet"
    BREAK = "it is broken off"


def verdict(
    left: float | None,
    spent: float,
    waited: float,
    now: bool,
    usual: float = 0.0,
    *,
    gradual: bool,
    decided: bool | None = None,
) -> Verdict:
    """What to do with the running batch of a lane that must end, if the batch can be broken off. All times are in
    seconds.

    The batch is broken off if ``now`` is True, or if enough time is saved by breaking it off: see
    :func:`anabranch.pace.break_off_cost.is_worth_it`. If ``left`` is unknown, the batch is broken off once both
    ``spent`` and ``waited`` exceed a limit. The limit is ``_OVERDUE`` if ``usual`` is known, and ``_PATIENCE`` if
    ``usual`` is unknown.

    Args:
        left: the time until the batch ends; None if unknown.
        spent: the time that the batch has taken so far, which would be lost.
        waited: the time since the lane was told to end.
        now: whether the user accepts that the batch's work so far is lost.
        usual: the usual duration of a batch; 0.0 if unknown.
        gradual: whether parts of the batch become visible before its end: see :mod:`anabranch.pace.break_off_cost`.
        decided: an earlier decision whether to break off this batch; None if there is none.
    """
    if now:
        return Verdict.BREAK
    if left is None:
        patience = _OVERDUE if usual else _PATIENCE
        return Verdict.BREAK if min(waited, spent) > patience else Verdict.LOOK
    return Verdict.BREAK if is_worth_it(left, spent, gradual=gradual, decided=decided) else Verdict.WAIT


def estimated(
    at: BatchProgress | None, number: int, spent: float, usual: float, cost: BatchCost | None = None
) -> float | None:
    """The expected seconds until the end of a batch; None if unknown, or if the expected time has passed.

    If the batch's progress (``at``) contains the remaining time, the result is this time. Otherwise, the result is the
    batch's expected duration minus ``spent``. The expected duration is computed from the batch's number of records and
    the ``cost`` of batches. If the number or the cost is unknown, the expected duration is ``usual``.
    """
    if at is not None and at.number == number:
        if at.left is not None:
            return at.left
        usual = usual if cost is None else cost.seconds(at.planned)
    return usual - spent if usual > spent else None


def is_brief(usual: float, left: float | None) -> bool:
    """Whether a closing lane with short batches should run one more batch after the running batch. The running batch
    may end before the successors' queries have started. The additional batch gives these queries time to start.

    True if the usual duration is known and less than ``BRIEF``, unless the running batch is known to need at least
    ``BRIEF`` more seconds.

    Args:
        usual: the usual duration of a batch in seconds; 0.0 if unknown.
        left: the time until the running batch ends, in seconds; None if unknown.
    """
    return 0.0 < usual < BRIEF and (left is None or left < BRIEF)


def told(number: int, why: str, left: float | None) -> str:
    """A message about the batch that keeps a lane from ending. The message consists of the batch's number, the
    predicate ``why``, and the time that is left. ``left`` is the expected number of seconds until the batch's end, or
    None if this number is unknown."""
    rest = "how much is left isn't known" if left is None else f"{left:.0f} s left"
    return f"batch {number} {why}: {rest}"


@dataclass
class BreakOff:
    """Decides, while a lane waits for its batch to end, whether to break the batch off.

    Args:
        gate: the object that the driver asks before it makes any part of the batch visible. Once the gate is shut, the
            driver can't make any further part visible.
        wanted: returns whether the batch may be broken off because the lane should end.
        now: returns whether to break the batch off even if much work is lost or at-least-once outputs are written
            twice.
        writing: returns whether the query is writing a batch.
        hurry: returns whether everything must end at once. If so, the next process runs the batch again.
        keeps: given the batch's number, returns why the batch can't be broken off; empty if no reason is known.
        left: given the batch's number and how many seconds it has run, returns the expected seconds until its end; None
            if unknown.
        judge: returns the :func:`verdict`, given the batch's number and the first four arguments of ``verdict``.
        tell: called with a message that says what keeps the lane from ending; called with an empty message once the
            batch is broken off.
        stays: called at most once, as soon as it is certain that no other batch will start, and that the last batch
            won't be broken off.
        broken: whether the batch was broken off because of ``wanted``. If the query is stopped because of ``hurry``,
            ``broken`` stays False.
    """

    gate: Gate
    wanted: Callable[[], bool]
    now: Callable[[], bool]
    writing: Callable[[], bool]
    hurry: Callable[[], bool]
    keeps: Callable[[int], str]
    left: Callable[[int, float], float | None]
    judge: Callable[[int, float | None, float, float, bool], Verdict]
    tell: Callable[[str], None]
    stays: Callable[[], None]
    clock: Callable[[], float] = monotonic
    broken: bool = False
    _is_last: bool = False
    _since: float | None = None
    _kept: dict[int, str] = field(default_factory=dict)

    def due(self) -> bool:
        """Whether the query must be stopped now, in the middle of its batch. Call this often."""
        if self.hurry():
            self.gate.shut(duplicates=True)
        if self.broken or self.hurry():
            return True
        if not self.wanted():
            return False
        self._since = self.clock() if self._since is None else self._since
        if not self.writing():
            return False
        number, spent = self.gate.number, self.gate.seconds
        left = self.left(number, spent)
        found = self.judge(number, left, spent, self.clock() - self._since, self.now())
        why = f"isn't broken off, as this would lose {spent:.1f} s of work"
        if found is Verdict.BREAK:
            why = self._why_not(number) or self.gate.shut(duplicates=self.now())
            self.broken = not why
        if self.broken:
            log.info("a batch is broken off", batch=number, seconds=round(spent, 1), left=left)
            self.tell("")
        elif found is not Verdict.LOOK:
            self._stay()
            self.tell(told(number, why, left))
        return self.broken

    def decided(self) -> None:
        """Record that no other batch will begin."""
        self._is_last = True
        if not self.due() and not self.writing():
            self._stay()

    def _why_not(self, number: int) -> str:
        """The result of ``keeps``, which is called only once per batch, because the call can take a moment."""
        if number not in self._kept:
            self._kept = {number: self.keeps(number)}
        return self._kept[number]

    def _stay(self) -> None:
        if not self._is_last:
            return  # another batch may follow, and the lane's successors must not start before it
        stays, self.stays = self.stays, lambda: None  # so that it is called once
        stays()


def runs(folder: Folder, writing: threading.Event) -> None:
    """Record that a query starts in a folder. ``writing`` is set while one of the query's batches is being written."""
    _writers[folder.uri] = writing


def is_quiet(folder: Folder, within: float = 0.0) -> bool:
    """Wait up to ``within`` seconds until no thread of this process is writing a batch in ``folder``. Such a thread can
    outlive its query, because Spark doesn't wait for it. Returns False if there is still such a thread at the end.
    """
    writing, deadline = _writers.get(folder.uri), monotonic() + within
    while writing is not None and writing.is_set():
        if monotonic() > deadline:
            return False
        time.sleep(_LOOK)
    return True


def taken_back(lane_folders: LaneFolders, lane: Lane, epoch: int, folder: Folder) -> bool:
    """Forget the pending batch of a closing lane, so that the successors read the batch's records instead. If part of
    the batch is in an exactly-once output or a table, the batch isn't forgotten, and the result is False. The caller
    must finish such a batch.

    Call this only if no query of the lane is running in this process, and no thread can still publish anything for the
    lane. If this process is killed during the call, the next process decides again.
    """
    batch = folder.planned()
    crash_points.reach(crash_points.BROKEN, lane.id, batch)
    folder.note_broken(batch)
    seen = lane_folders.withdrawn(lane, epoch, committed=folder.committed())
    crash_points.reach(crash_points.WITHDRAWN, lane.id, batch)
    if seen >= batch:
        log.info("a batch that was broken off is finished: part of it is already visible", lane=lane.id, batch=batch)
        return False
    folder.take_back()
    crash_points.reach(crash_points.TAKEN_BACK, lane.id, batch)
    log.info("a batch was taken back: later batches read its records", lane=lane.id, batch=batch)
    return True
