"""Reads the newest dead letters of a job from its systems."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from anabranch.coordinator.store import Store, stored_jobs
from anabranch.coordinator.streams.stream_reading import StreamOpener
from anabranch.errors import NotFoundError, UsageError
from anabranch.model.lane import Lane
from anabranch.systems import records
from anabranch.systems.contract import System
from anabranch.systems.systems import Systems
from anabranch.views.dead_letters import Content, DeadLetter, DeadLetters, Origin

__all__ = ["MOST", "DeadLetterReader", "LetterRange", "content_of", "letter", "streams_of"]

MOST = 1_000
_SHOWN_BYTES = 4_096
"""The maximum number of bytes of a key, a value or a header that are shown."""
_SECONDS, _BYTES = 5.0, 2_000_000
"""A request stops reading after this many seconds, or after this many bytes of dead letters. The bytes are counted in
the form in which dead letters are shown.
"""
_AT_ONCE = 500
"""The maximum number of offsets that are read at once, from the end backwards."""
_PREFIX = "anabranch."
_ORIGIN = ("stream", "partition", "offset")


@dataclass(frozen=True)
class LetterRange:
    """Which dead letters to return.

    Attributes:
        partition: the partition to read; None for all partitions together.
        before: the offset below which dead letters are returned; 0 for no limit.
        limit: how many dead letters to return at most; the newest are chosen.
    """

    partition: int | None
    before: int
    limit: int

    @classmethod
    def of(cls, partition: str, before: int, limit: int) -> LetterRange:
        """The range from a request's parameters. Raises UsageError if they aren't valid."""
        if not 1 <= limit <= MOST:
            raise UsageError(f"{limit} dead letters can't be asked for", f"ask for 1 to {MOST}")
        if partition and not partition.isdecimal():
            raise UsageError(f"{partition!r} is no partition", "give its number")
        if before and not partition:
            raise UsageError("before=OFFSET needs a partition", "name it: partition=0")
        return cls(int(partition) if partition else None, before, limit)


class DeadLetterReader:
    """Reads dead letters, for one user at a time.

    Args:
        systems: see :class:`StreamOpener`.
        now: returns the seconds since 1970.
    """

    def __init__(self, store: Store, systems: Systems | None, now: Callable[[], float]) -> None:
        self._store = store
        self._streams = StreamOpener(systems, "dead letters are")
        self._now = now
        self._clock = time.monotonic

    def newest(self, job: str, stream: str, wanted: LetterRange) -> DeadLetters:
        """The newest dead letters in ``stream``, one of the job's dead-letter streams. If ``stream`` is empty, the
        dead-letter stream that comes first by name is read. If the job has no dead-letter stream, the ``stream`` of the
        result is empty. ``wanted`` says which dead letters to return. If reading takes too long, or if the dead letters
        are too large, fewer of them are returned, and the result is marked as partial.

        Raises:
            NotFoundError: there is no such job, stream or partition.
            ConflictError: as for :meth:`StreamOpener.opened`.
            AnabranchError: the system doesn't answer.
        """
        its = stored_jobs.deployment(self._store, job)
        streams = streams_of(stored_jobs.known_lanes(self._store, job).values())
        if stream and stream not in streams:
            known = f"it has {', '.join(streams)}" if streams else "it has none: see [job] on_error"
            raise NotFoundError(f"job {job!r} has no dead letters in {stream[:200]!r}", known)
        chosen = stream or next(iter(streams), "")
        found = DeadLetters(at=self._now(), job=job, streams=tuple(streams), stream=chosen, letters=())
        if not chosen:
            return found
        with self._streams.opened(job, its.program, chosen, streams[chosen]) as system:
            letters, before, partly = self._read(system, chosen, wanted)
        return msgspec.structs.replace(found, letters=tuple(letters), before=before, partly=partly)

    def _read(self, system: System, stream: str, wanted: LetterRange) -> tuple[list[DeadLetter], dict[str, int], bool]:
        starts = system.starts(stream)
        ends = system.ends(stream, starts)
        if wanted.partition is not None:
            if wanted.partition not in ends:
                raise NotFoundError(
                    f"{stream} has no partition {wanted.partition}", f"its partitions are 0 to {len(ends) - 1}"
                )
            end = ends[wanted.partition]
            ends = {wanted.partition: min(wanted.before, end) if wanted.before else end}
        until, left = self._clock() + _SECONDS, _BYTES
        found: list[DeadLetter] = []
        reached = dict(ends)
        for partition, end in ends.items():
            its: list[DeadLetter] = []
            high = end
            while high > starts[partition] and len(its) < wanted.limit and left > 0 and self._clock() < until:
                low = max(starts[partition], high - min(_AT_ONCE, 2 * wanted.limit))
                read = [
                    letter(partition, at, row)
                    for offsets, batch in system.read(stream, partition, [(low, high)])
                    for at, row in zip(offsets.tolist(), records.to_dicts(batch), strict=True)
                ]
                left -= sum(map(_size, read))
                its, high = [*read, *its], low
            reached[partition] = high
            found += its
        newest = sorted(found, key=lambda each: (each.at, each.offset), reverse=True)[: wanted.limit]
        for partition in ends:
            shown = [each.offset for each in newest if each.partition == partition]
            if len(shown) < sum(each.partition == partition for each in found):
                reached[partition] = min(shown, default=ends[partition])
        before = {str(partition): at for partition, at in reached.items() if at > starts[partition]}
        return newest, before, left <= 0 or self._clock() >= until


def streams_of(lanes: Iterable[Lane]) -> dict[str, str]:
    """Maps the dead-letter streams of lanes, sorted by name, to their systems. A dead-letter stream is in the system of
    the stream whose dead letters it contains.
    """
    found: dict[str, str] = {}
    for lane in lanes:
        systems = {ssp.stream: ssp.system for ssp in (*lane.ssps, *lane.broadcast)}
        found |= {letters: systems[read] for read, letters in lane.dead_letters.items() if read in systems}
    return dict(sorted(found.items()))


def letter(partition: int, offset: int, row: Mapping[str, Any]) -> DeadLetter:
    """The dead letter in ``row``, a record of a dead-letter stream in the form that :func:`records.to_dicts` returns.
    The record's headers contain the origin and the reason."""
    headers = {each["key"]: each["value"] or b"" for each in row["headers"] or ()}
    ours = {name.removeprefix(_PREFIX): _text(value) for name, value in headers.items() if name.startswith(_PREFIX)}
    return DeadLetter(
        partition=partition,
        offset=offset,
        at=row["timestamp"] // 1000,
        error=ours.get("error", ""),
        operator=ours.get("operator", ""),
        origin=_origin(ours),
        key=content_of(row["key"]),
        value=content_of(row["value"]),
        headers={name: _text(value) for name, value in headers.items() if not name.startswith(_PREFIX)},
    )


def _origin(ours: Mapping[str, str]) -> Origin | None:
    if any(name not in ours for name in _ORIGIN):
        return None
    if not (ours["partition"].isdecimal() and ours["offset"].isdecimal()):
        return None  # another program's header
    return Origin(stream=ours["stream"], partition=int(ours["partition"]), offset=int(ours["offset"]))


def content_of(value: bytes | None) -> Content | None:
    """A key or a value as it is shown."""
    if value is None:
        return None
    part, cut = value[:_SHOWN_BYTES], len(value) > _SHOWN_BYTES
    try:
        return Content(bytes=len(value), cut=cut, text=_whole(part, cut))
    except UnicodeDecodeError:
        return Content(bytes=len(value), cut=cut, base64=base64.b64encode(part).decode())


def _whole(part: bytes, cut: bool) -> str:
    """Decoded UTF-8. If the bytes were ``cut``, an incomplete character at their end is dropped."""
    for less in range(4 if cut else 1):
        try:
            return part[: len(part) - less].decode()
        except UnicodeDecodeError:
            if less == (3 if cut else 0):
                raise
    raise AssertionError("one of them returns or raises")


def _text(value: bytes) -> str:
    return value[:_SHOWN_BYTES].decode(errors="replace")


def _size(of: DeadLetter) -> int:
    parts = (len(each.text or each.base64 or "") for each in (of.key, of.value) if each is not None)
    return len(of.error) + sum(parts) + sum(map(len, of.headers.values()))
