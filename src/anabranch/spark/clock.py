"""A lane's event time on its way to Spark: a file that the lane keeps, and the source that hands it on as data.

The source's offset is the lane's :class:`Progress`, so it stands in the offset log, and planning, cloning and resetting
edit one line of it. Its only row, when the watermark has risen, is the watermark.
"""

from __future__ import annotations

import base64
import json
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from anabranch.errors import AnabranchError
from anabranch.event_time import control, progress
from anabranch.event_time.progress import Progress, Upstream
from anabranch.systems.contract import System

if TYPE_CHECKING:
    from anabranch.systems.systems import Systems  # slow to import, and each clock is a process of its own

FORMAT = "anabranch-event-time"
SCHEMA = "watermark timestamp"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Clock:
    """What a lane knows after a batch. ``delays`` and ``positions`` are by SSP, written ``system/stream/partition``.

    ``delays`` are in ms, None for SSPs of intermediate streams; ``positions`` are those at the end of the batch.
    """

    progress: Progress
    delays: Mapping[str, int | None]
    positions: Mapping[str, int]

    def write(self, path: Path) -> None:
        """Replace the file. It holds no more than what can be found out again: it needn't outlive the process."""
        part = path.with_suffix(".part")
        held = {"progress": self.progress.to_builtins(), "delays": self.delays, "positions": self.positions}
        part.write_text(json.dumps(held))
        part.replace(path)

    @property
    def held_by(self) -> str | None:
        """The SSP that holds the watermark back."""
        return progress.held_by(self.progress, self.delays)

    def heard(self, system: Callable[[str], System]) -> Progress:
        """The progress with what other lanes have told meanwhile, in the part of the streams that this one has read.

        ``system`` gives one by its name; it isn't called unless the lane reads an intermediate stream.
        """
        upstream = {
            ssp: _heard(self.progress.upstream.get(ssp, Upstream()), system, ssp, self.positions[ssp])
            for ssp, delay in self.delays.items()
            if delay is None and ssp in self.positions
        }
        now = progress.after(self.progress, self.delays, {}, upstream)
        return self.progress if _without_cursors(now) == _without_cursors(self.progress) else now


def read(path: Path) -> Clock | None:
    """What was written last; None before the first time."""
    try:
        held = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    return Clock(progress.from_builtins(held["progress"]), held["delays"], held["positions"])


def _heard(before: Upstream, system: Callable[[str], System], ssp: str, position: int) -> Upstream:
    name, stream, partition = ssp.split("/")
    told, cursor = system(name).controls(stream, int(partition), before.cursor, position)
    return before.after([control.from_builtins(each, f"stream {ssp}") for each in told], cursor)


def _without_cursors(of: Progress) -> Progress:
    return replace(of, upstream={ssp: replace(each, cursor=-1) for ssp, each in of.upstream.items()})


def is_of_clock(offset: object) -> bool:
    """Whether an offset in a query's progress is that of a clock, whose rows are of no stream."""
    told = json.loads(offset) if isinstance(offset, str) else offset
    return isinstance(told, dict) and told.get("source") == progress.SOURCE


def carried(systems: Systems) -> str:
    """Systems as an option. Secrets stay references."""
    return base64.b64encode(pickle.dumps(systems)).decode()


class EventTimeSource(DataSource):
    """Options: ``file`` (of the clock), ``systems`` (see :func:`carried`); ``rows`` "false": it has none."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return _Reader(dict(self.options))


class _Watermark(InputPartition):
    def __init__(self, unix_ms: int) -> None:
        self.unix_ms = unix_ms


class _Reader(DataSourceStreamReader):
    def __init__(self, options: dict[str, str]) -> None:
        self._file = Path(options["file"])
        self._rows = options["rows"] == "true"
        self._carried = options["systems"]

    def _system(self, name: str) -> System:
        return self._systems.named(name)

    @cached_property
    def _systems(self) -> Systems:
        systems: Systems = pickle.loads(base64.b64decode(self._carried))
        return systems

    def initialOffset(self) -> dict[str, Any]:
        return Progress().to_builtins()

    def latestOffset(self, start: dict[str, Any], limit: object) -> dict[str, Any]:
        clock = read(self._file)
        if clock is None:
            return start
        try:
            return clock.heard(self._system).to_builtins()
        except AnabranchError as error:
            if type(error) is not AnabranchError:  # of a stream, or of what it holds
                raise
            return clock.progress.to_builtins()  # a system that doesn't answer now holds nothing up

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        risen = end["watermark"] is not None and end["watermark"] != start["watermark"]
        return [_Watermark(end["watermark"])] if self._rows and risen else []

    def read(self, partition: InputPartition) -> Iterator[tuple[datetime]]:
        assert isinstance(partition, _Watermark)
        yield (_EPOCH + timedelta(milliseconds=partition.unix_ms),)
