"""Reads early output, the rows that a drain emitted before their windows were complete, from a job's output streams."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import pyarrow.compute as pc

from anabranch.coordinator.store import Store, stored_jobs
from anabranch.coordinator.streams.dead_letters import content_of
from anabranch.coordinator.streams.stream_reading import StreamOpener
from anabranch.errors import NotFoundError, UsageError
from anabranch.model.lane import Lane
from anabranch.systems import records
from anabranch.systems.contract import System
from anabranch.systems.systems import Systems
from anabranch.views.early_output import EarlyOutput, EarlyRow

__all__ = ["MOST", "EarlyOutputReader", "is_marked", "streams_of"]

MOST = 1_000
_RECORDS, _SECONDS = 20_000, 5.0
"""A request examines at most this many offsets of each partition, and stops reading after this many seconds.
"""
_AT_ONCE = 1_000
_MARK = "drained"
"""The field that is true in a row that a drain emitted early. Its name repeats
:data:`anabranch.spark.operators.evaluation.DRAINED`, which a coordinator can't import, because it runs without Spark.
"""


class EarlyOutputReader:
    """Reads early output, for one user at a time. The arguments are those of
    :class:`anabranch.coordinator.streams.dead_letters.DeadLetterReader`.
    """

    def __init__(self, store: Store, systems: Systems | None, now: Callable[[], float]) -> None:
        self._store = store
        self._streams = StreamOpener(systems, "early output is")
        self._now = now
        self._clock = time.monotonic

    def newest(self, job: str, stream: str, limit: int) -> EarlyOutput:
        """The newest rows of early output in ``stream``, one of the job's output streams; at most ``limit`` rows. If
        ``stream`` is empty, the output stream that comes first by name is read. If the job writes no stream, the
        ``stream`` of the result is empty. Only the latest records of each partition are examined. If a partition has
        earlier records, the result is marked as partial.

        Raises:
            NotFoundError: there is no such job or stream.
            ConflictError: as for :meth:`StreamOpener.opened`.
            UsageError: the limit is too small or too large.
            AnabranchError: the system doesn't answer.
        """
        if not 1 <= limit <= MOST:
            raise UsageError(f"{limit} rows can't be asked for", f"ask for 1 to {MOST}")
        deployment = stored_jobs.deployment(self._store, job)
        lanes = stored_jobs.known_lanes(self._store, job).values()
        outputs = streams_of(lane for lane in lanes if lane.deployment == deployment.id)
        streams = self._streams.streams(job, deployment.program, outputs)
        if stream and stream not in streams:
            known = f"it has {', '.join(streams)}" if streams else "it writes no stream"
            raise NotFoundError(f"job {job!r} has no output {stream[:200]!r}", known)
        chosen = stream or next(iter(streams), "")
        view = EarlyOutput(
            at=self._now(), job=job, streams=tuple(streams), stream=chosen, rows=(), total=0, looked_at=0
        )
        if not chosen:
            return view
        with self._streams.opened(job, deployment.program, chosen, streams[chosen]) as system:
            return self._read(system, view, limit)

    def _read(self, system: System, view: EarlyOutput, limit: int) -> EarlyOutput:
        starts = system.starts(view.stream)
        ends = system.ends(view.stream, starts)
        until = self._clock() + _SECONDS
        rows: list[EarlyRow] = []
        total = looked_at = 0
        partly = False
        for partition, end in ends.items():
            high, lowest = end, max(starts[partition], end - _RECORDS)
            marked: list[EarlyRow] = []
            while high > lowest and self._clock() < until:
                low = max(lowest, high - _AT_ONCE)
                part: list[EarlyRow] = []
                for offsets, batch in system.read(view.stream, partition, [(low, high)]):
                    looked_at += len(batch)
                    maybe = pc.fill_null(pc.match_substring(batch.column("value"), f'"{_MARK}"'), False)
                    places = offsets[maybe.to_numpy(zero_copy_only=False)].tolist()
                    found = zip(places, records.to_dicts(batch.filter(maybe)), strict=True)
                    part += [_row(partition, at, record) for at, record in found if is_marked(record["value"])]
                marked, high = [*part, *marked], low
            partly = partly or high > starts[partition]
            total += len(marked)
            rows += marked[-limit:]
        newest = sorted(rows, key=lambda row: (row.at, row.offset), reverse=True)[:limit]
        return msgspec.structs.replace(view, rows=tuple(newest), total=total, looked_at=looked_at, partly=partly)


def streams_of(lanes: Iterable[Lane]) -> dict[str, str]:
    """The lanes' outputs that none of these lanes reads, each with its system. Dead-letter streams are left out."""
    known = list(lanes)
    others = {ssp.stream for lane in known for ssp in (*lane.ssps, *lane.broadcast)}
    others |= {stream for lane in known for stream in lane.dead_letters.values()}
    written = {stream: lane.system(stream) for lane in known for stream in lane.outputs}
    return {stream: system for stream, system in sorted(written.items()) if stream not in others}


def is_marked(value: bytes | None) -> bool:
    """Whether a record's value is a JSON object marked as early output."""
    if value is None or f'"{_MARK}"'.encode() not in value:
        return False
    try:
        row = msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError):
        return False
    return isinstance(row, dict) and row.get(_MARK) is True


def _row(partition: int, offset: int, record: dict[str, Any]) -> EarlyRow:
    return EarlyRow(
        partition=partition,
        offset=offset,
        at=record["timestamp"] // 1000,
        key=content_of(record["key"]),
        value=content_of(record["value"]),
    )
