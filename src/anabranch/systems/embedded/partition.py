"""One partition's manifest: reading its entries, finding its end, and publishing the next entry."""

from __future__ import annotations

import os
import re
from collections.abc import Callable

from anabranch.errors import LogError
from anabranch.systems.embedded import disk, manifest
from anabranch.systems.embedded.manifest import Entry, Tail

__all__ = ["extend", "forward", "look", "path_of", "read"]

_ENTRY_NAME = re.compile(r"(\d{20})\.json")


def path_of(folder: str, sequence: int) -> str:
    """The file of an entry; ``folder`` is the partition's manifest folder."""
    return f"{folder}/{sequence:020d}.json"


def read(folder: str, sequence: int) -> Entry | None:
    """An entry, or None if there is none with that number yet."""
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
    """The tail when none is known, by listing the folder; ``Tail(sequence=-1)`` when it is empty.

    Raises:
        LogError: the manifest doesn't exist, or has a hole.
    """
    try:
        names = os.listdir(folder)
    except FileNotFoundError as error:
        raise LogError(f"{folder} is missing", "restore the stream's folder from a backup") from error
    there = {int(found[1]) for name in names if (found := _ENTRY_NAME.fullmatch(name))}
    if not there:
        return Tail(stream=stream_id)
    last = max(there)
    for sequence in sorted(set(range(last)) - there):
        path = path_of(folder, sequence)
        if not os.path.exists(path):  # a listing may overlook a file that is linked meanwhile
            raise LogError(
                f"{path} is missing, and entries after it are there",
                "restore the file from a backup; nothing can be written here until then",
            )
    return _known_to_be_there(folder, Tail(stream=stream_id), last)


def forward(folder: str, tail: Tail) -> Tail:
    """The present tail, from an earlier one. One ``stat`` if there is nothing new; otherwise O(log n) and one read."""
    low = tail.sequence
    if not os.path.exists(path_of(folder, low + 1)):
        return tail
    low, step = low + 1, 1
    while os.path.exists(path_of(folder, low + step)):
        low, step = low + step, step * 2
    high = low + step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if os.path.exists(path_of(folder, middle)) else (low, middle)
    return _known_to_be_there(folder, tail, low)


def extend(folder: str, tail: Tail, decide: Callable[[Tail], Entry | None]) -> tuple[Tail, bool]:
    """Publish the entry that ``decide`` returns after the last one; False when it returns none.

    ``decide`` is called for ``tail`` and again for every later entry, so an entry that must stop the writer can't be
    overlooked: ``decide`` stops it by raising. Its last answer counts.
    """
    walked = False
    while True:
        wanted = decide(tail)
        while (found := read(folder, tail.sequence + 1)) is not None:
            tail, walked = tail.after(found), True
            wanted = decide(tail)
        if wanted is None:
            if walked:
                disk.sync_folder(folder)
            return tail, False
        if disk.link_new(path_of(folder, wanted.sequence), manifest.encode(wanted)):
            return tail.after(wanted), True


def _known_to_be_there(folder: str, tail: Tail, sequence: int) -> Tail:
    """The tail at an existing entry, which is made durable first: its writer may have died before that."""
    disk.sync_folder(folder)
    entry = read(folder, sequence)
    if entry is None:
        raise LogError(f"{path_of(folder, sequence)} has vanished", "restore the file from a backup")
    return tail.after(entry)
