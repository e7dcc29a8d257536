"""One partition's manifest: reads its entries, finds its end, and publishes the next entry.

The oldest entries are deleted first, and the last entry is never deleted. Before an entry is deleted, ``start.json``
gets a start after this entry (:mod:`anabranch.systems.embedded.trimming`). Therefore, when a process has looked for an
entry, it must read ``start.json`` afterwards, even if it has found the entry. If the partition now begins after the
entry, the entry was deleted. Otherwise, the result of the search is valid.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable

import msgspec

from anabranch.errors import LogError
from anabranch.systems.embedded import disk, manifest, start
from anabranch.systems.embedded.manifest import Entry, Tail

__all__ = ["extend", "forward", "lock_path", "look", "path_of", "read", "sequences"]

_ENTRY_NAME = re.compile(r"(\d{20})\.json")


def path_of(folder: str, sequence: int) -> str:
    """The path of an entry's file. ``folder`` is the partition's manifest folder."""
    return f"{folder}/{sequence:020d}.json"


def lock_path(folder: str) -> str:
    """The path of the lock that processes share while they add entries. A process that deletes entries holds the lock
    exclusively."""
    return f"{os.path.dirname(folder)}/.lock"


def sequences(folder: str) -> set[int]:
    """The numbers of the entries in a manifest folder. Raises LogError if the folder doesn't exist."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError as error:
        raise LogError(f"{folder} is missing", "restore the stream's folder from a backup") from error
    return {int(found[1]) for name in names if (found := _ENTRY_NAME.fullmatch(name))}


def read(folder: str, sequence: int) -> Entry | None:
    """The entry with the number ``sequence``; None if there is no such entry. Raises LogError if the entry's file is
    damaged, and UnsupportedFormatError if the file has another format version.
    """
    path = path_of(folder, sequence)
    try:
        with open(path, "rb") as file:
            raw = file.read()
    except FileNotFoundError:
        return None
    entry = manifest.decode(raw, path)
    if entry.sequence != sequence:
        raise LogError(f"{path} says that it is entry {entry.sequence}", "restore the file from a backup")
    return entry


def look(folder: str, stream_id: str) -> Tail:
    """A partition's current tail, found by listing the folder. If there are no entries, and none was ever deleted, the
    tail's ``sequence`` is -1. Raises LogError if the manifest doesn't exist, or has a hole.
    """
    while True:
        begins = start.read(start.of_manifest(folder))
        there = sequences(folder)
        if not there and not begins.sequence:
            return Tail(stream=stream_id)
        last = max(there, default=-1)
        hole = _hole(folder, begins.sequence, there)
        if hole is None:
            tail = _existing(folder, Tail(stream=stream_id), last)
            if tail is not None:
                return tail
        elif start.read(start.of_manifest(folder)) == begins:
            after = "and entries after it are there" if hole < last else "where the partition begins"
            raise LogError(
                f"{path_of(folder, hole)} is missing, {after}",
                "restore the file from a backup; nothing can be written here until then",
            )


def forward(folder: str, tail: Tail) -> Tail:
    """A partition's current tail, found from the earlier tail ``tail``. If there are no new entries, this takes two
    ``stat`` calls. If there are n new entries, this takes O(log n) ``stat`` calls and two reads. If the entries after
    the earlier tail have been deleted, the folder is listed, and the returned tail has ``skipped`` set. ``folder`` is
    the manifest folder.
    """
    low = tail.sequence
    if not os.path.exists(path_of(folder, low + 1)):
        return tail if _is_there(folder, tail) else _beyond(folder, tail)
    low, step = low + 1, 1
    while os.path.exists(path_of(folder, low + step)):
        low, step = low + step, step * 2
    high = low + step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if os.path.exists(path_of(folder, middle)) else (low, middle)
    return _existing(folder, tail, low) or _beyond(folder, tail)


def extend(folder: str, tail: Tail, decide: Callable[[Tail], Entry | None]) -> tuple[Tail, bool]:
    """Extend a partition by the entry that ``decide`` returns. If ``decide`` returns None, add nothing. Returns the
    partition's tail, and whether an entry was added.

    Args:
        folder: the manifest folder.
        tail: the partition's tail, or an earlier one.
        decide: gets a tail, and returns the entry to add after this tail, or None to add nothing. The function is
            called for ``tail``, and then for the tail after each entry that other processes have added since. If some
            of these entries have been deleted, the function is called for the current tail instead, with ``skipped``
            set. Only the last result counts. If any call raises an error, nothing is added.

    Raises:
        LogError: a file is damaged or missing; or a process that deletes entries has held the partition's lock for a
            minute.
    """
    walked = False
    while True:
        wanted = decide(tail)
        while (found := read(folder, tail.sequence + 1)) is not None:
            tail, walked = tail.after(found), True
            wanted = decide(tail)
        if wanted is None and _is_there(folder, tail):
            if walked:
                disk.sync_folder(folder)
            return tail, False
        # The number of a deleted entry must never be used again. While the lock is held, nothing is deleted.
        with disk.shared(lock_path(folder), f"nothing can be added to {os.path.dirname(folder)}"):
            is_last = _is_there(folder, tail)
            if is_last and wanted and disk.link_new(path_of(folder, wanted.sequence), manifest.encode(wanted)):
                return tail.after(wanted), True
        if not is_last:
            tail = _beyond(folder, tail)


def _hole(folder: str, first: int, there: set[int]) -> int | None:
    """The first missing number from ``first`` on, if any."""
    for sequence in sorted(set(range(first, max(max(there, default=-1), first) + 1)) - there):
        if not os.path.exists(path_of(folder, sequence)):  # a listing may miss a file that is linked while it runs
            return sequence
    return None


def _is_there(folder: str, tail: Tail) -> bool:
    """Whether a tail's entry still exists. If so, all later entries exist, too."""
    if tail.sequence < 0:
        return not os.path.exists(start.of_manifest(folder))
    return os.path.exists(path_of(folder, tail.sequence))


def _beyond(folder: str, tail: Tail) -> Tail:
    """The current tail, with ``skipped`` set. Used if the last entry of the known tail ``tail`` has been deleted."""
    return msgspec.structs.replace(look(folder, tail.stream), skipped=True)


def _existing(folder: str, tail: Tail, sequence: int) -> Tail | None:
    """The tail after the entry with the number ``sequence``; None if the entry has been deleted. The entry is made
    durable first, because the process that wrote the entry may have died too early to do so."""
    disk.sync_folder(folder)
    entry = read(folder, sequence)
    begins = start.read(start.of_manifest(folder))
    if begins.sequence > sequence:
        return None
    if entry is None:
        raise LogError(f"{path_of(folder, sequence)} has vanished", "restore the file from a backup")
    return tail.after(entry)
