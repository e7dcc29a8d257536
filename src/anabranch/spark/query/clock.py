"""Passes a lane's event time to Spark: the lane writes the time to a file, and a streaming source returns it as data.

The source's offset is the lane's :class:`Progress`, so each entry of the offset log contains the lane's event time.
When the watermark has risen, the source returns a single row with the new watermark, unless an option forbids rows.
"""

from __future__ import annotations

import base64
import json
import pickle
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from anabranch import logs
from anabranch.clocks import boottime
from anabranch.errors import AnabranchError
from anabranch.event_time import batch_time, control, processing, progress, windows
from anabranch.event_time.progress import Progress, Upstream
from anabranch.event_time.windows import Window
from anabranch.spark.query.planned_batch import Batch
from anabranch.systems.contract import System
from anabranch.throttle import LastTold

if TYPE_CHECKING:
    from anabranch.systems.systems import Systems  # slow to import, and each clock source runs in a process of its own

FORMAT = "anabranch-event-time"
SCHEMA = "watermark timestamp"
_IDLE = ".idle"
_NOBODY: Mapping[str, int] = {}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Clock:
    """The contents of a lane's clock file: the lane's event time after a batch. If the lane takes over event time from
    other lanes, the file is also written before the first batch. SSPs have the form ``system/stream/partition``.

    Attributes:
        progress: the lane's event time after the batch, or the event time that the lane has taken over.
        delays: the delay in ms of each SSP that determines the watermark; None for SSPs of intermediate streams.
        positions: the position in each SSP at the end of the batch, or before the first batch.
        window: the windows of processing time, if the lane has any.
        newest: when the last batch that read records was planned, in Unix ms. If that batch isn't known after a
            restart, the last batch of any kind counts. 0 in a lane without windows of processing time.
        at: the lane's processing time in the batch, in Unix ms.
        boot: when this object was made, in seconds on :func:`anabranch.clocks.boottime`, a clock that nobody can set.
    """

    progress: Progress
    delays: Mapping[str, int | None]
    positions: Mapping[str, int]
    window: Window | None = None
    newest: int = 0
    at: int = 0
    boot: float = 0.0

    def write(self, path: Path) -> None:
        """Replace the clock file. The file is needed only as long as this process runs, because a new process can
        determine its contents again.
        """
        part = path.with_suffix(".part")
        held: dict[str, Any] = {"progress": self.progress.to_builtins()}
        held |= {"delays": self.delays, "positions": self.positions}
        if self.window is not None:
            held |= {"window": windows.to_builtins(self.window), "newest": self.newest}
            held |= {"at": self.at, "boot": self.boot}
        part.write_text(json.dumps(held))
        part.replace(path)

    @property
    def held_by(self) -> str | None:
        """The SSP that holds the watermark back; None if all SSPs are idle."""
        return progress.held_by(self.progress, self.delays)

    @property
    def times(self) -> dict[str, int]:
        """The watermark of each SSP that has one, in Unix ms."""
        return progress.times(self.progress, self.delays)

    @property
    def idle(self) -> list[str]:
        """The SSPs that don't hold the watermark back, because they have no new records."""
        return progress.resting(self.progress, self.delays)

    def now(self, wall: int, boot: float) -> int:
        """The lane's processing time, in Unix ms.

        Args:
            wall: the machine's time, in Unix ms.
            boot: the current value of :func:`anabranch.clocks.boottime`.
        """
        return batch_time.now(self.at, (boot - self.boot) * 1000, wall)

    def heard(self, system: Callable[[str], System], now: int, idle: Mapping[str, int] = _NOBODY) -> Progress:
        """The lane's event time for the next batch: :attr:`progress`, updated with ``idle`` and with new control
        records. These are read up to the lane's position in each intermediate stream. If nothing has changed except
        how far control records were read and which lanes are gone, the result is :attr:`progress` itself.

        If the lane has windows of processing time, only the watermark is updated, from ``now``.

        Args:
            system: returns a system by name. Called only if the lane reads an intermediate stream.
            now: the lane's processing time, in Unix ms.
            idle: the SSPs that seemed idle, each with the position that the lane had at that time. An SSP from which
                the lane has read more records since then isn't idle.
        """
        if self.window is not None:
            closed = processing.closed(self.window, self.newest, max(now, self.newest))
            return replace(self.progress, watermark=max(closed, self.progress.watermark or closed))
        upstream = {
            ssp: _heard(self.progress.upstream.get(ssp, Upstream()), system, ssp, self.positions[ssp])
            for ssp, delay in self.delays.items()
            if delay is None and ssp in self.positions
        }
        still = frozenset(ssp for ssp, at in idle.items() if self.positions.get(ssp) == at and ssp in self.delays)
        told = progress.after(replace(self.progress, idle=still), self.delays, {}, upstream)
        return self.progress if _without_readings(told) == _without_readings(self.progress) else told


def read(path: Path) -> Clock | None:
    """The clock that was last written to a file; None if there is no file."""
    try:
        held = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    window = windows.of_builtins(held["window"]) if "window" in held else None
    reached = progress.from_builtins(held["progress"])
    times = {name: held[name] for name in ("newest", "at", "boot") if name in held}
    return Clock(reached, held["delays"], held["positions"], window, **times)


def note_idle(path: Path, idle: Mapping[str, int]) -> None:
    """Write down which SSPs seem idle, and the lane's position in each of these SSPs, in a file next to the clock file
    ``path``."""
    part = path.with_suffix(".idle-part")
    part.write_text(json.dumps(idle))
    part.replace(path.with_suffix(_IDLE))


def idle_at(path: Path) -> dict[str, int]:
    """The SSPs and positions that :func:`note_idle` last recorded, if any."""
    try:
        held: dict[str, int] = json.loads(path.with_suffix(_IDLE).read_text())
    except FileNotFoundError:
        return {}
    return held


def forget(path: Path) -> None:
    """Delete the clock file and the file with the idle SSPs next to it."""
    for each in (path, path.with_suffix(_IDLE)):
        each.unlink(missing_ok=True)


def reached(last: Batch | None, path: str | None) -> int:
    """The processing time that a lane has reached, in Unix ms; 0 if none is known. The lane's next batch is planned at
    this time or later. The last batch of a drain doesn't count.

    Args:
        last: the last planned batch; None if no batch has been planned yet.
        path: the path of the lane's clock file; None if the lane has no windows of processing time.
    """
    planned = 0 if last is None or last.drains else last.at
    if path is None:
        return planned
    time, watermark = read(Path(path)), 0 if last is None or last.drains else last.watermark
    return max(planned, watermark, 0 if time is None else time.progress.watermark or 0)


def unix_ms() -> int:
    """The machine's current time, in Unix ms."""
    return time.time_ns() // 1_000_000


def _heard(before: Upstream, system: Callable[[str], System], ssp: str, position: int) -> Upstream:
    name, stream, partition = ssp.split("/")
    told, cursor = system(name).controls(stream, int(partition), before.cursor, position)
    return before.after([control.from_builtins(each, f"stream {ssp}") for each in told], cursor)


def _without_readings(of: Progress) -> Progress:
    return replace(of, upstream={ssp: replace(each, cursor=-1, gone={}) for ssp, each in of.upstream.items()})


def is_of_clock(offset: object) -> bool:
    """Whether a source's offset (as JSON or as a dict) belongs to an :class:`EventTimeSource`, whose rows aren't
    counted because they don't come from a stream.
    """
    told = json.loads(offset) if isinstance(offset, str) else offset
    return isinstance(told, dict) and told.get("source") == progress.SOURCE


def carried(systems: Systems) -> str:
    """The systems, serialized as the value of a source's option. References to secrets aren't resolved."""
    return base64.b64encode(pickle.dumps(systems)).decode()


class EventTimeSource(DataSource):
    """The streaming source for a lane's event time. Its options are ``file`` (the path of the clock file), ``systems``
    (from :func:`carried`) and ``rows``. If ``rows`` is "false", the source has offsets, but returns no rows.
    """

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
        self._told = LastTold()

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
            heard = clock.heard(self._system, clock.now(unix_ms(), boottime()), idle_at(self._file))
        except AnabranchError as error:
            if type(error) is not AnabranchError:  # the error is about a stream or its contents
                raise
            self._tell(error)
            return clock.progress.to_builtins()  # the lane must not fail if a system can't be reached for a while
        self._told.over()
        return heard.to_builtins()

    def _tell(self, error: AnabranchError) -> None:
        """Log why the lane's event time stands still, unless the last error was the same."""
        if self._told.is_new(error.what):
            log = logs.get_logger()  # only now, because the import takes a while, and the lane's first batch waits
            log.warning("control records can't be read", lane=self._file.stem, error=str(error))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        risen = end["watermark"] is not None and end["watermark"] != start["watermark"]
        return [_Watermark(end["watermark"])] if self._rows and risen else []

    def read(self, partition: InputPartition) -> Iterator[tuple[datetime]]:
        assert isinstance(partition, _Watermark)
        yield (_EPOCH + timedelta(milliseconds=partition.unix_ms),)
