"""The interface of a table that takes the rows of each batch exactly once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

__all__ = ["Owner", "RowWriter", "Table"]


@dataclass(frozen=True)
class Owner:
    """The process that runs a lane, or will run it, under a certain epoch.

    Attributes:
        job: the job's name.
        lane: the lane's id.
        epoch: the epoch under which the process runs the lane. Each epoch of a job is higher than all earlier ones.
        committed: for :meth:`Table.commit`, an earlier batch that the table has certainly committed; -1 if the process
            knows of none.
    """

    job: str
    lane: str
    epoch: int
    committed: int = -1

    def __str__(self) -> str:
        return f"lane {self.lane} of {self.job}, epoch {self.epoch}"


class RowWriter(Protocol):
    """Takes the rows of one attempt of a Spark task, in a Python worker.

    A writer is not used after :meth:`abort`, or after a successful :meth:`close`. Spark may run a Spark task twice,
    even at the same time, so each writer must choose unique names for the data that it writes.
    """

    def write(self, rows: pa.RecordBatch) -> None:
        """Take the next rows of the Spark task. ``rows`` is never empty."""
        ...

    def close(self) -> list[bytes]:
        """Make the rows durable, but not yet visible to readers.

        Returns:
            References by which :meth:`Table.commit` finds the rows.
        """
        ...

    def abort(self) -> None:
        """Remove everything that this writer has written, as far as possible.

        This method is called if the Spark task fails, even if it fails in :meth:`close`. The method is also called if
        the Spark task has no rows.
        """
        ...


class Table(Protocol):
    """A table to which one output writes. To create an instance of a class of your own, anabranch calls the class with
    the output's name and settings: ``Class("orders", settings)``.

    The constructor raises ConfigError for a setting that is not allowed, and must not connect to anything. An instance
    must be picklable, because it is sent to Python workers.

    A table keeps a *marker* (:class:`Mark`) for each lane that writes to it: the highest epoch under which a process
    has owned the lane, and the lane's last committed batch. The marker is stored with the table, and is changed
    atomically with the rows.
    """

    def id(self) -> str:
        """An id of the table, which no other table of the class has. If :meth:`prepare` creates the table again under
        the same name, the new table has another id.

        Raises:
            NotFoundError: the table does not exist.
        """
        ...

    def prepare(self, schema: pa.Schema, create: bool) -> None:
        """Create the table if it does not exist and ``create`` is True. Then check that the table accepts rows with the
        columns in ``schema``.

        Args:
            schema: the columns of the rows.
            create: whether to create the table if it does not exist. True if the job is new, was drained or reset, or
                is deployed in another version.

        Raises:
            NotFoundError: the table does not exist, and ``create`` is False; or something that is not a table has its
                name or path.
            ConfigError: a setting does not fit the columns.
            ConflictError: the table does not accept such rows, for example because a column is missing or has another
                type.
        """
        ...

    def fence(self, owner: Owner, new: bool | None) -> None:
        """Write the owner's epoch into the lane's marker. After this, no process with a lower epoch can commit.

        This method must be idempotent, because it is called again after an error. When it returns, readers must see
        every batch that a former owner has committed. Any process, not only the owner, can call it at any time.

        Args:
            owner: the new owner of the lane.
            new: True if no batch of the lane was ever planned; None if that is not known.

        Raises:
            FencedError: the marker has a higher epoch.
            StateError: the lane is new, but the lane's marker has a batch; or the lane is not new, but has no marker.
        """
        ...

    def last(self, job: str, lane: str) -> int:
        """The number of a lane's last committed batch; -1 if there is none.

        Args:
            job: the job's name.
            lane: the lane's id.

        Raises:
            NotFoundError: the table does not exist.
        """
        ...

    def writers(self, job: str) -> list[str]:
        """The ids of a job's lanes that have committed a batch to this table. Empty if the table cannot list them."""
        ...

    def writer(self, owner: Owner, schema: pa.Schema) -> RowWriter:
        """A writer for the rows of one Spark task.

        Args:
            owner: the lane, and the epoch of the process that writes the rows.
            schema: the columns of the rows, the same as for :meth:`prepare`.
        """
        ...

    def commit(self, owner: Owner, batch: int, parts: Sequence[bytes]) -> None:
        """Make the rows of Spark tasks visible in the table, in the order of ``parts``, and make ``batch`` the lane's
        last committed batch. Either both happen or neither does.

        If ``batch`` isn't higher than the lane's last committed batch, the call is a replay, and must change neither
        the rows nor the marker. The parts of a replay may differ from the parts that were committed.

        Args:
            owner: the lane, and the epoch of the process that commits.
            batch: the batch's number.
            parts: the references that the writers' ``close`` returned; never empty.

        Raises:
            FencedError: the marker has a higher epoch. Nothing was changed.
            StateError: the lane has no marker, because the table is not the one that was fenced; or the table was set
                back, so that it lacks batches that it had already committed.
        """
        ...

    def leave(self, owner: Owner) -> None:
        """Remove this owner's temporary data, including the data that a failed batch has left behind. Keep the marker.

        Called when none of the owner's Spark tasks is running.
        """
        ...
