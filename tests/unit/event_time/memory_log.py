"""A log in memory, with what lanes write and read of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from anabranch.event_time.windows import Tumbling
from anabranch.model.lane import Lane
from anabranch.model.ssp import SSP
from anabranch.systems.output import Target

DELAY = 10
WINDOW = Tumbling(16)
OWN = "own"
PLANNED, PUBLISHING, PUBLISHED, FINISHED, COMMITTED = "planned", "publishing", "published", "finished", "committed"

Window = tuple[int, int]
"""Task of the last stage, and start."""


@dataclass(frozen=True)
class Row:
    """A row keeps its identity from the source to the window."""

    source: SSP
    number: int
    at: int
    key: int


def ssp_of(stream: str, partition: int) -> SSP:
    return SSP(system="embedded", stream=stream, partition=partition)


class Killed(BaseException):
    """The lane's process is gone."""


@dataclass
class Told:
    """What stood behind a batch: the lane's watermark, and the event times that it had still to read."""

    lane: Lane
    batch: int
    watermark: int | None
    unread: list[int]


@dataclass(frozen=True)
class Entry:
    base: int
    rows: tuple[Row, ...]
    control: Mapping[str, Any] | None = None


@dataclass
class MemoryLog:
    """As much of the embedded log as event time needs."""

    entries: dict[SSP, list[Entry]] = field(default_factory=dict)

    def rows(self, ssp: SSP) -> list[Row]:
        return [row for entry in self.entries.get(ssp, []) for row in entry.rows]

    def add(self, ssp: SSP, rows: Sequence[Row], control: Mapping[str, Any] | None = None) -> None:
        self.entries.setdefault(ssp, []).append(Entry(len(self.rows(ssp)), tuple(rows), control))

    def named(self, name: str) -> MemoryLog:
        """Itself, as the only system there is."""
        return self

    def controls(self, stream: str, number: int, cursor: int, position: int) -> tuple[list[Any], int]:
        entries = self.entries.get(ssp_of(stream, number), [])
        heard = [entry for entry in entries[cursor + 1 :] if entry.base <= position]
        return [entry.control for entry in heard if entry.control is not None], cursor + len(heard)


@dataclass
class File:
    """As much of a ``Path`` as the clock needs."""

    texts: dict[str, str]
    name: str

    def with_suffix(self, suffix: str) -> File:
        return File(self.texts, self.name + suffix)

    def write_text(self, text: str) -> None:
        self.texts[self.name] = text

    def read_text(self) -> str:
        if self.name not in self.texts:
            raise FileNotFoundError(self.name)
        return self.texts[self.name]

    def replace(self, other: File) -> None:
        other.write_text(self.texts.pop(self.name))

    def unlink(self, missing_ok: bool) -> None:
        self.texts.pop(self.name, None)


@dataclass
class Writer:
    """As a publisher: a batch comes to a partition once. ``left``: how many more before it is killed."""

    log: MemoryLog
    batches: dict[SSP, int] = field(default_factory=dict)
    left: int | None = None

    def publish(self, batch: int, written: Sequence[Any], controls: Mapping[Target, Any]) -> None:
        rows = {(each.stream, each.partition): each.rows for each in written}
        told = {(t.stream, p): c.to_builtins() for t, c in controls.items() for p in range(t.partitions)}
        for place in sorted({*rows, *told}):
            self._publish(*place, batch, rows.get(place, []), told.get(place))

    def _publish(self, stream: str, partition: int, batch: int, rows: Sequence[Row], control: Any) -> None:
        if self.left == 0:
            raise Killed
        self.left = None if self.left is None else self.left - 1
        ssp = ssp_of(stream, partition)
        if self.batches.get(ssp, -1) < batch:
            self.batches[ssp] = batch
            self.log.add(ssp, rows, json.loads(json.dumps(control)))


@dataclass(frozen=True)
class Source:
    """As ``Source``: one stream of a lane; ``timed``: not an intermediate one."""

    log: MemoryLog
    stream: str
    ssps: tuple[SSP, ...]

    @property
    def name(self) -> str:
        return self.stream

    @property
    def node(self) -> Any:
        return SimpleNamespace(name=self.stream)

    @property
    def timed(self) -> bool:
        return self.stream in ("s0", OWN)

    @property
    def intake(self) -> object:
        return object() if self.timed else None

    @property
    def starts(self) -> dict[int, int]:
        return {ssp.partition: 0 for ssp in self.ssps}

    def maxima(self, measured: Mapping[str, int]) -> Mapping[str, int]:
        return measured

    def measured_again(self, ranges: Mapping[int, tuple[int, int]], at: int) -> dict[str, int]:
        found = {p: self.log.rows(ssp_of(self.stream, p))[first:end] for p, (first, end) in ranges.items()}
        return {str(ssp_of(self.stream, p)): max(row.at for row in rows) for p, rows in found.items() if rows}
