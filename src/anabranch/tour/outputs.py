"""Compares the outputs of the tour's job with results that are computed directly from the flights."""

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
    """How the job's outputs differ from the correct results."""

    late: int
    """The number of different flights in the output for late flights."""
    late_repeated: int
    """The number of duplicate records of late flights."""
    late_wrong: int
    """The number of late flights that are missing, plus the number of flights in the output that aren't late."""
    windows: int
    """The number of windows in the output (one for each destination and hour), without duplicates."""
    windows_repeated: int
    """The number of duplicate records of windows."""
    windows_wrong: int
    """The number of windows that are missing or superfluous, or whose count or mean is wrong."""
    flights: int
    """The sum of the flight counts of all windows in the output, without duplicates."""

    @property
    def is_right(self) -> bool:
        return not (self.late_repeated or self.late_wrong or self.windows_repeated or self.windows_wrong)


def window_count(system: System) -> int:
    """The number of records in the output for windows; 0 if this stream doesn't exist yet."""
    try:
        return sum(1 for _ in _rows(system, WINDOWS, _Window))
    except NotFoundError:
        return 0


def compared(system: System, written: pa.Table) -> Comparison:
    """Compare the job's outputs with the flights in its input, window by window and flight by flight."""
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
    """A time as text in the form that :data:`Flight` uses: without fractions of a second."""
    return f"{text.partition('.')[0].rstrip('Z')}Z"


def _same(one: tuple[int, float | None] | None, other: tuple[int, float | None] | None) -> bool:
    if one is None or other is None or one[0] != other[0]:
        return False
    if one[1] is None or other[1] is None:
        return one[1] is other[1]
    return math.isclose(one[1], other[1], rel_tol=1e-9, abs_tol=1e-9)
