"""Defines the marker of a lane in a table, and the rules by which every kind of table reads and writes markers."""

from __future__ import annotations

from dataclasses import dataclass

from anabranch.errors import FencedError, NotFoundError, StateError
from anabranch.tables.contract import Owner

__all__ = ["NOTHING", "Mark", "check", "fenced", "missing", "set_back"]

NOTHING = -1


@dataclass(frozen=True)
class Mark:
    """The marker of a lane: what a table stores about the lane.

    Attributes:
        epoch: the highest epoch under which a process has owned the lane.
        batch: the lane's last committed batch; -1 if there is none.
    """

    epoch: int
    batch: int


def check(mark: Mark | None, owner: Owner, where: str) -> Mark:
    """Check that the owner may commit, and return the lane's marker.

    Args:
        mark: the marker in the table; None if there is none.
        owner: the process that wants to commit.
        where: the table, for error messages.

    Raises:
        FencedError: the marker has a higher epoch.
        StateError: the marker that the owner's fence created is gone, or is older than ``owner.committed``.
    """
    if mark is None:
        raise _unmarked(owner, where)
    if mark.epoch > owner.epoch:
        raise FencedError(
            f"{owner}, must not write to {where}: epoch {mark.epoch} has taken over",
            "nothing was written; this process must stop, the lane continues elsewhere",
        )
    if mark.batch < owner.committed:
        raise set_back(where, owner.job, owner.lane, mark.batch, owner.committed)
    return mark


def fenced(mark: Mark | None, owner: Owner, where: str, new: bool | None) -> Mark | None:
    """The marker that a fence must write; None if the table has this marker already.

    For ``owner``, ``new`` and the errors, see :meth:`Table.fence`. For ``mark`` and ``where``, see :func:`check`.
    """
    if mark is None:
        if new is False:
            raise _unmarked(owner, where)
        return Mark(owner.epoch, NOTHING)
    check(mark, owner, where)
    if new and mark.batch > NOTHING:
        raise StateError(
            f"lane {owner.lane} of {owner.job} is new, but {where} holds batch {mark.batch} of it",
            "the coordinator's store is an older copy: restore the newest one; going on would lose or repeat records",
        )
    return None if mark.epoch == owner.epoch else Mark(owner.epoch, mark.batch)


def missing(where: str) -> NotFoundError:
    """The error for a table that doesn't exist, although a job has written to it."""
    return NotFoundError(
        f"{where} doesn't exist",
        "restore it, because only a new job creates it; or, to start as a new job: anabranch reset JOB",
    )


def set_back(where: str, job: str, lane: str, now: int, before: int) -> StateError:
    """The error for a table that was set back: the lane's last batch in the table ``where`` is batch ``now``, but it
    used to be batch ``before``."""
    return StateError(
        f"{where} contains batches of lane {lane} up to {now}, but it used to contain them up to {before}: it was "
        "restored from an older copy, or its database failed over to a replica that lacked the last commits",
        f"restore its newest copy: the rows of batches {now + 1} to {before} are missing from it, and the lane won't "
        f"write them again\n  without it those rows are lost: after `anabranch reset {job}` the job writes its outputs "
        "once more",
    )


def _unmarked(owner: Owner, where: str) -> StateError:
    return StateError(
        f"{where} knows nothing of lane {owner.lane} of {owner.job}, which has written there: it was created "
        "again, or restored from an older copy",
        f"restore it as it was; or, to start as a new job: anabranch reset {owner.job}",
    )
