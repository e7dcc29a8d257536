"""Cuts the inputs of a test into parts at the sentinels. A part consists of rows that are put into the streams
together, and of the sentinel (if any) after these rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from anabranch.errors import UsageError

__all__ = ["BATCH", "DRAIN", "EXPAND", "KILL", "REWIND", "SCALE", "Part", "Sentinel", "cut"]


@dataclass(frozen=True)
class Sentinel:
    """A mark among the rows of an input. It determines what happens before the following rows are put into the
    stream.
    """

    name: str

    def __repr__(self) -> str:
        return self.name


BATCH = Sentinel("BATCH")
"""The rows before this sentinel are processed until the job is idle. After that, the following rows are added."""

KILL = Sentinel("KILL")
"""The job dies here, as with ``kill -9``, and a new incarnation continues. See :func:`anabranch.testing.run`."""


DRAIN = Sentinel("DRAIN")
"""As soon as the job has run its first batch of the preceding rows, or has nothing to read, the job drains. A new
deployment then reads the following rows. See :func:`anabranch.testing.run`."""


@dataclass(frozen=True)
class SCALE(Sentinel):
    """Changes the job's factor, as in ``SCALE(4)``. The change happens as soon as the job has run its first batch of
    the preceding rows, or has nothing to read.

    Args:
        factor: the new factor, a power of two.
    """

    factor: int

    def __init__(self, factor: int) -> None:
        object.__setattr__(self, "name", f"SCALE({factor})")
        object.__setattr__(self, "factor", factor)

    __repr__ = Sentinel.__repr__


@dataclass(frozen=True)
class REWIND(Sentinel):
    """Rewinds the job as ``anabranch rewind`` does. The rewind happens as soon as the job has run its first batch of
    the preceding rows, or has nothing to read.

    Args:
        to: ``"earliest"``, a time with a time zone as text, or offsets by stream and partition:
            ``REWIND({"flights": {0: 12}})``.
        state: ``"keep"`` or ``"clear"``; required if the job has state downstream of the rewound streams.
    """

    to: str | Mapping[str, Mapping[int, int]] = field(compare=False)
    state: str | None = field(compare=False)

    def __init__(self, to: str | Mapping[str, Mapping[int, int]] = "earliest", state: str | None = None) -> None:
        object.__setattr__(self, "name", f"REWIND({to!r}, state={state!r})")
        object.__setattr__(self, "to", to)
        object.__setattr__(self, "state", state)

    __repr__ = Sentinel.__repr__


@dataclass(frozen=True)
class EXPAND(Sentinel):
    """Gives more partitions to the stream whose input contains this sentinel, as in ``EXPAND(8)``, while the job runs.

    Rows before the sentinel are distributed by the old partition count, and rows after the sentinel by the new count.

    Args:
        partitions: the new partition count, a multiple of the old count.
    """

    partitions: int

    def __init__(self, partitions: int) -> None:
        object.__setattr__(self, "name", f"EXPAND({partitions})")
        object.__setattr__(self, "partitions", partitions)

    __repr__ = Sentinel.__repr__


@dataclass(frozen=True)
class Part:
    """Rows that are put into the streams together, and what happens after these rows.

    Attributes:
        rows: the rows by stream, each with its index in the input's list.
        ends: the sentinel at the end of the part; None at the end of the inputs.
        among: the streams whose inputs have the sentinel ``ends`` after these rows.
    """

    rows: Mapping[str, list[tuple[int, Any]]]
    ends: Sentinel | None
    among: tuple[str, ...] = ()


def cut(inputs: Mapping[str, Iterable[Any]]) -> list[Part]:
    """Cut the inputs of a test into parts: the rows before the first sentinel of each input, the rows between the first
    and the second sentinel, and so on. An input with fewer sentinels than others adds no rows to the later parts.

    Raises:
        UsageError: two inputs have different sentinels at the end of the same part.
    """
    pieces = {stream: _pieces(rows) for stream, rows in inputs.items()}
    parts = []
    for number in range(max((len(each) for each in pieces.values()), default=0)):
        mine = {stream: each[number] for stream, each in pieces.items() if number < len(each)}
        ends = {stream: sentinel for stream, (_, sentinel) in mine.items() if sentinel is not None}
        if len(set(ends.values())) > 1:
            said = ", ".join(f"{stream} has {sentinel}" for stream, sentinel in ends.items())
            raise UsageError(
                f"the inputs don't agree on what happens after part {number + 1}: {said}",
                "the sentinels of all inputs are passed together, the first with the first: give them the same",
            )
        sentinel = next(iter(ends.values()), None)
        parts.append(Part({stream: rows for stream, (rows, _) in mine.items()}, sentinel, tuple(ends)))
    return parts


def _pieces(rows: Iterable[Any]) -> list[tuple[list[tuple[int, Any]], Sentinel | None]]:
    pieces: list[tuple[list[tuple[int, Any]], Sentinel | None]] = []
    piece: list[tuple[int, Any]] = []
    for place, row in enumerate(rows):
        if isinstance(row, Sentinel):
            pieces.append((piece, row))
            piece = []
        else:
            piece.append((place, row))
    return [*pieces, (piece, None)]
