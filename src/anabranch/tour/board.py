"""What the tour's job has written so far: read from its output streams as it grows."""

from __future__ import annotations

from collections import Counter

import msgspec
from rich.table import Table

from anabranch.errors import NotFoundError
from anabranch.systems.contract import System
from anabranch.tour.flights import Figures

LATE = "late-flights"
BY_DESTINATION = "delay-by-destination"
_SHOWN = 8


class _Row(msgspec.Struct):
    dest: str
    window_start: str
    flights: int
    mean_delay: float | None = None

    @property
    def hour(self) -> str:
        """As the data writes it: no window begins within a second."""
        return f"{self.window_start.partition('.')[0]}Z"


class Board:
    """The windows that were closed, by destination and hour, and the number of late flights.

    ``twice`` counts the windows that came out more than once: none should.
    """

    def __init__(self, system: System) -> None:
        self.figures: Figures = {}
        self.twice = 0
        self._system = system
        self._read: dict[int, int] = {}
        self._decoder = msgspec.json.Decoder(_Row)

    @property
    def late(self) -> int:
        """How many late flights there are in the output."""
        ends = self._system.ends(LATE)
        return sum(
            len(offsets) for number, end in ends.items() for offsets, _ in self._system.read(LATE, number, [(0, end)])
        )

    def refresh(self) -> None:
        """Take in what was written since the last time; nothing while there is no output stream yet."""
        try:
            ends = self._system.ends(BY_DESTINATION)
        except NotFoundError:
            return
        for partition, end in ends.items():
            begin = self._read.get(partition, 0)
            if end > begin:
                for _, batch in self._system.read(BY_DESTINATION, partition, [(begin, end)]):
                    for value in batch.column("value").to_pylist():
                        row = self._decoder.decode(value)
                        self.twice += (row.dest, row.hour) in self.figures
                        self.figures[row.dest, row.hour] = (row.flights, row.mean_delay)
            self._read[partition] = end

    def table(self) -> Table:
        """The destinations with the most flights, as they stand."""
        self.refresh()
        flights: Counter[str] = Counter()
        worst: dict[str, tuple[float, str]] = {}
        for (dest, hour), (count, mean) in self.figures.items():
            flights[dest] += count
            worst[dest] = max(worst.get(dest, (0.0, "")), (mean or 0.0, hour))
        found = Table(title=f"{sum(flights.values()):,} flights in {len(self.figures):,} destination hours")
        for column in ("destination", "flights", "worst hour", "its mean delay, min"):
            found.add_column(column, justify="right" if column in ("flights", "its mean delay, min") else "left")
        for dest, count in flights.most_common(_SHOWN):
            found.add_row(dest, f"{count:,}", worst[dest][1], f"{worst[dest][0]:.0f}")
        return found
