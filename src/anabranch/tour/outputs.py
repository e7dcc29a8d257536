"""Compares what the tour's job has written with the flights themselves."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

import msgspec
import pyarrow as pa

from anabranch.errors import NotFoundError
from anabranch.systems.contract import System
from anabranch.tour import flights
from anabranch.tour.flights import Flight

__all__ = ["LATE", "WINDOWS", "Comparison", "compared", "window_count"]

LATE, WINDOWS = "late-flights", "delay-by-destination"

_T = TypeVar("_T")


class _Late(msgspec.Struct):
    carrier: str
    flight: int
    dest: str
    at: str


class _Window(msgspec.Struct):
    dest: str
    window_start: str
    flights: int
    mean_delay: float | None = None


@dataclass(frozen=True)
class Comparison:
    """How the outputs compare with the flights that went in."""

    late: int
    """The late flights in the output, each counted once."""
    late_repeated: int
    """Records of late flights beyond the first."""
    late_wrong: int
    """Late flights that are missing, and records of flights that aren't late."""
    windows: int
    """Destination hours that are missing, or whose count or mean is wrong."""
    windows_repeated: int
    """Records of destination hours beyond the first."""
    windows_wrong: int
    """Destination hours that are missing, or whose count or mean is different."""
    flights: int
    """The flights in those hours."""

    @property
    def is_right(self) -> bool:
        return not (self.late_repeated or self.late_wrong or self.windows_repeated or self.windows_wrong)


def window_count(system: System) -> int:
    """How many records the windows' output has."""
    try:
        return sum(1 for _ in _rows(system, WINDOWS, _Window))
    except NotFoundError:
        return 0


def compared(system: System, written: pa.Table) -> Comparison:
    """Compare the outputs with the flights that were written into the input, window by window and flight by flight."""
    late: Counter[Flight] = Counter(
        (row.carrier, row.flight, row.dest, _seconds(row.at)) for row in _rows(system, LATE, _Late)
    )
    wanted_late = flights.late(written)
    rows = list(_rows(system, WINDOWS, _Window))
    figures = {(row.dest, _seconds(row.window_start)): (row.flights, row.mean_delay) for row in rows}
    wanted = flights.windows(written)
    return Comparison(
        late=len(late),
        late_repeated=late.total() - len(late),
        late_wrong=len(late.keys() ^ wanted_late.keys()),
        windows=len(figures),
        windows_repeated=len(rows) - len(figures),
        windows_wrong=sum(not _same(figures.get(key), wanted.get(key)) for key in figures.keys() | wanted.keys()),
        flights=sum(count for count, _ in figures.values()),
    )


def _rows(system: System, stream: str, row: type[_T]) -> Iterator[_T]:
    decoder = msgspec.json.Decoder(row)
    for partition, end in system.ends(stream).items():
        for _, batch in system.read(stream, partition, [(0, end)]):
            yield from map(decoder.decode, batch.column("value").to_pylist())


def _seconds(text: str) -> str:
    """A time in the form that flights have: without fractions of a second."""
    return f"{text.partition('.')[0].rstrip('Z')}Z"


def _same(one: tuple[int, float | None] | None, other: tuple[int, float | None] | None) -> bool:
    if one is None or other is None or one[0] != other[0]:
        return False
    if one[1] is None or other[1] is None:
        return one[1] is other[1]
    return math.isclose(one[1], other[1], rel_tol=1e-9, abs_tol=1e-9)
