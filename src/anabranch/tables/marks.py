"""The mark of a lane in a table, and the rules by which each kind of table keeps it."""

from __future__ import annotations

from dataclasses import dataclass

from anabranch.errors import FencedError, StateError
from anabranch.tables.contract import Owner

__all__ = ["NOTHING", "Mark", "check", "fenced"]

NOTHING = -1


@dataclass(frozen=True)
class Mark:
    """The highest epoch that has had the lane, and its last committed batch."""

    epoch: int
    batch: int


def check(mark: Mark | None, owner: Owner, where: str) -> Mark:
    """The mark of a lane that the owner may commit for.

    Raises:
        FencedError: a newer process has it.
        StateError: there is none, and a fence has made one.
    """
    if mark is None:
        raise _unmarked(owner, where)
    if mark.epoch > owner.epoch:
        raise FencedError(
            f"{owner}, may not write to {where}: epoch {mark.epoch} has taken over",
            "nothing was written; this process must stop, the lane goes on elsewhere",
        )
    return mark


def fenced(mark: Mark | None, owner: Owner, where: str, new: bool | None) -> Mark | None:
    """The mark that a fence must leave, None if it is there already. Errors: see :meth:`Table.fence`."""
    if mark is None:
        if new is False:
            raise _unmarked(owner, where)
        return Mark(owner.epoch, NOTHING)
    check(mark, owner, where)
    if new and mark.batch > NOTHING:
        raise StateError(
            f"lane {owner.lane} of {owner.job} is new, but {where} holds batch {mark.batch} of it",
            "the coordinator's store was set back: restore the newest one; to go on would lose or repeat records",
        )
    return None if mark.epoch == owner.epoch else Mark(owner.epoch, mark.batch)


def _unmarked(owner: Owner, where: str) -> StateError:
    return StateError(
        f"{where} knows nothing of lane {owner.lane} of {owner.job}, which has written there: it was made anew, or set "
        "back to a copy",
        "restore it as it was; to begin afresh, give the job another name",
    )
