"""What a table gives, so that each batch of each lane is in it exactly once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

__all__ = ["Owner", "RowWriter", "Table"]


@dataclass(frozen=True)
class Owner:
    """One incarnation of a lane: the process that has it under ``epoch``. Any two epochs of a job compare."""

    job: str
    lane: str
    epoch: int

    def __str__(self) -> str:
        return f"lane {self.lane} of {self.job}, epoch {self.epoch}"


class RowWriter(Protocol):
    """Takes the rows of one Spark task, in a Python worker. Not after :meth:`close` or :meth:`abort`.

    A task may run twice, also at the same time: what is written must be found under names of its own.
    """

    def write(self, rows: pa.RecordBatch) -> None:
        """Take rows, in order. Never none."""
        ...

    def close(self) -> list[bytes]:
        """Make them durable where no reader sees them; gives what :meth:`Table.commit` finds them by."""
        ...

    def abort(self) -> None:
        """Take back what was written, as far as that can be done."""
        ...


class Table(Protocol):
    """A table of one output: a class that is made with the output's name and settings, ``Class("orders", settings)``.

    Where a setting isn't allowed, making it raises ConfigError; nothing is connected to before it is asked something.
    It can be pickled: it travels to Python workers.

    The heart of it is a *mark* for each lane: the highest epoch that has had it, and its last committed batch. It is
    kept in the table itself, is read and changed atomically with the rows, and outlives any process.
    """

    def id(self) -> str:
        """What tells the table from another one of the same name, made after it was deleted.

        Raises:
            NotFoundError: there is none.
        """
        ...

    def prepare(self, schema: pa.Schema, create: bool) -> None:
        """See that the table takes rows of these columns. ``create``: the job is new: make it if it isn't there.

        Raises:
            NotFoundError: there is none, and it isn't to be made.
            ConflictError: it has other columns.
        """
        ...

    def fence(self, owner: Owner, new: bool | None) -> None:
        """Give the lane's mark the owner's epoch. When this returns, nobody with a lower one can commit any more.

        Idempotent; after an error, it is called again. What a former owner has committed must be whole after it.
        Others than the owner call it, too, at any time.

        Args:
            new: the lane has never run a batch. None: that isn't known.

        Raises:
            FencedError: the mark has a higher epoch.
            StateError: the lane is new, and its mark has a batch; or it isn't, and has no mark.
        """
        ...

    def last(self, job: str, lane: str) -> int:
        """The last batch of a lane that is committed, -1 if none is."""
        ...

    def writers(self, job: str) -> list[str]:
        """The lanes of a job that have a batch here."""
        ...

    def writer(self, owner: Owner, schema: pa.Schema) -> RowWriter:
        """Takes the rows of one task of a batch, in these columns."""
        ...

    def commit(self, owner: Owner, batch: int, parts: Sequence[bytes]) -> None:
        """Make what the tasks wrote a part of the table, in this order, and the batch the lane's last: both or none.

        A batch that is committed already, or an earlier one, is a replay: nothing is changed then. It may have been
        written anew, with other parts.

        Raises:
            FencedError: the mark has a higher epoch. Nothing was changed.
        """
        ...

    def leave(self, owner: Owner) -> None:
        """The owner itself has no task at work: take away what only it needed, also of a batch that has failed, and
        leave the mark.
        """
        ...
