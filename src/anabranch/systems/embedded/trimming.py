"""Deletes the oldest entries of a partition, with their segments.

``start.json`` is made durable first. Then the entries are deleted, beginning with the oldest. Each entry's segments are
deleted before the entry itself. If the process is killed during the deletion, the next deletion removes the remaining
entries below the start.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

from anabranch.systems.embedded import disk, partition, start
from anabranch.systems.embedded.manifest import Entry, Tail
from anabranch.systems.embedded.start import Start
from anabranch.systems.retention import Retention

__all__ = ["Partition", "Trimmed", "before", "expired", "trim"]

_AT_ONCE = 1000
"""How many entries are deleted at once, while writers wait. This takes about 0.1 s."""
_PATIENCE = 0.5

Due = Callable[[Entry], bool]
"""A function that returns whether an entry should be deleted. The function is called for one entry after another,
beginning with the oldest, until it returns False."""


@dataclass(frozen=True)
class Partition:
    """A partition's folders, and its last entry, which is never deleted."""

    manifest: str
    segments: str
    tail: Tail


@dataclass(frozen=True)
class Trimmed:
    """How much was deleted. ``is_done`` is False if more entries may have to be deleted. ``alone`` is False if nothing
    was deleted because other processes held the lock."""

    entries: int
    records: int
    is_done: bool
    alone: bool = True


def before(offset: int) -> Due:
    """A function that selects the entries whose records all come before ``offset``."""
    return lambda entry: entry.base + entry.rows <= offset


def expired(of: Partition, retention: Retention, now: int) -> Due:
    """A function that selects the entries that a retention doesn't keep. ``now`` is in Unix milliseconds."""

    @cache
    def kept_from() -> int:
        return _last_within(of, retention.bytes or 0)

    def due(entry: Entry) -> bool:
        if retention.ms is not None and entry.at < now - retention.ms:
            return True
        if retention.bytes is None:
            return False
        if entry.total is None:
            return entry.sequence < kept_from()
        return of.tail.total - entry.total >= retention.bytes

    return due


def trim(of: Partition, due: Due, limit: Callable[[], int | None]) -> Trimmed:
    """Delete the oldest entries of a partition, up to the first entry that must stay, but at most ``_AT_ONCE`` entries.
    The partition's last entry always stays. If other processes hold the lock for more than half a second, nothing is
    deleted.

    Args:
        of: the partition.
        due: returns whether an entry should be deleted.
        limit: a function that is called while the partition is locked. It returns the lowest offset that must be kept
            for readers, or None if there is no such limit. An entry with a record at or after this offset must stay.

    Raises:
        LogError: ``start.json``, an entry, or the file of a reader is damaged.
        OSError: the entries can't be deleted.
    """
    with disk.try_exclusive(partition.lock_path(of.manifest), _PATIENCE) as alone:
        if not alone:
            return Trimmed(0, 0, is_done=False, alone=False)
        most = limit()
        path = start.of_manifest(of.manifest)
        begins = start.read(path)
        _delete(of, [*_left_over(of.manifest, begins)])
        found: list[Entry] = []
        while len(found) < _AT_ONCE and begins.sequence + len(found) < of.tail.sequence:
            entry = partition.read(of.manifest, begins.sequence + len(found))
            if entry is None or not due(entry) or (most is not None and entry.base + entry.rows > most):
                break
            found.append(entry)
        if not found:
            return Trimmed(0, 0, is_done=True)
        start.write(path, _after(begins, found))
        _delete(of, found)
        disk.remove_temporary(of.manifest)
    return Trimmed(len(found), sum(entry.rows for entry in found), is_done=len(found) < _AT_ONCE)


def _after(begins: Start, deleted: list[Entry]) -> Start:
    last = deleted[-1]
    controls = {_lane(control): (number, control) for number, control in begins.numbered_controls}
    for entry in deleted:
        if entry.control is not None:
            controls.pop(_lane(entry.control), None)
            controls[_lane(entry.control)] = (entry.sequence, entry.control)
    return Start(
        sequence=last.sequence + 1,
        offset=last.base + last.rows,
        controls=tuple(control for _, control in controls.values()),
        control_entries=tuple(number for number, _ in controls.values()),
    )


def _lane(control: Mapping[str, Any]) -> str:
    return str(control.get("lane", ""))


def _left_over(folder: str, begins: Start) -> Iterator[Entry]:
    """The entries that a killed process has left below the start, oldest first."""
    first = begins.sequence
    while first and os.path.exists(partition.path_of(folder, first - 1)):
        first -= 1
    for sequence in range(first, begins.sequence):
        if (entry := partition.read(folder, sequence)) is not None:
            yield entry


def _delete(of: Partition, entries: list[Entry]) -> None:
    for entry in entries:
        for segment in entry.segments:
            with suppress(FileNotFoundError):  # deleted by a process that was killed before it deleted the entry
                os.unlink(f"{of.segments}/{segment.file}")
        os.unlink(partition.path_of(of.manifest, entry.sequence))
    if entries:
        disk.sync_folder(of.segments)
        disk.sync_folder(of.manifest)


def _last_within(of: Partition, limit: int) -> int:
    """The number of the oldest entry that a limit of ``limit`` bytes keeps. An entry is kept if all newer entries
    together have fewer bytes than the limit. The bytes are added up backwards from the last entry, because the entries
    of an older anabranch don't have ``total``.
    """
    after = 0
    for sequence in range(of.tail.sequence, -1, -1):
        if after >= limit:
            return sequence + 1
        entry = partition.read(of.manifest, sequence)
        if entry is None:
            break
        after += entry.bytes
    return 0
