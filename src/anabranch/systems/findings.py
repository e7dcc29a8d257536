"""What a system finds out about its streams: damaged files, and transactions that hold readers up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["JavaClasses", "OpenTransaction", "StreamFault"]


@dataclass(frozen=True)
class StreamFault:
    """A problem with a stream's files.

    Attributes:
        path: the damaged file or folder.
        problem: what is wrong, as the rest of a sentence that begins with the path.
        lost: what can't be read because of the problem.
    """

    path: str
    problem: str
    lost: str


@dataclass(frozen=True)
class OpenTransaction:
    """A transaction that has neither been committed nor aborted.

    Attributes:
        offset: the offset of the transaction's first record in the partition.
        behind: how many offsets of the partition can't be read because of the transaction.
        since: when the transaction's first record in the partition was written, in seconds since 1970; None if unknown.
        producer: who began the transaction, as the rest of a sentence that begins with "a transaction of".
        cure: how to end the transaction.
    """

    offset: int
    behind: int
    since: float | None
    producer: str
    cure: str


JavaClasses = Callable[[str], Any]
"""A function that gets the full name of a Java class, and finds this class in the Java process in which Spark runs. The
function also finds classes in the jars that :meth:`System.session_needs` names."""
