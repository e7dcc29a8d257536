"""Checks a stream's files: JSON must be valid, entries must have consecutive numbers, and segments must have the sizes
that their entries state."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from anabranch.errors import AnabranchError, LogError, UnsupportedFormatError
from anabranch.systems.embedded import layout, partition, start
from anabranch.systems.embedded.log import Log
from anabranch.systems.findings import StreamFault

__all__ = ["faults"]


def faults(log: Log, stream: str) -> list[StreamFault]:
    """The problems of a stream. Other processes can write to the stream during the check. In each partition, the check
    ends at the first fault in ``start.json`` or the manifest. Only the first damaged reader file is reported. If
    ``stream.json`` is damaged, nothing else is checked.

    Raises:
        NotFoundError: there is no such stream.
    """
    root = str(log.root)
    try:
        count = log.describe(stream).partitions
    except (LogError, UnsupportedFormatError) as error:
        path = layout.info_path(root, stream)
        return [StreamFault(path, _problem(error, path), f"all of {stream}")]
    found = [fault for number in range(count) for fault in _settled(log, stream, number)]
    try:
        log.readers(stream).all()
    except (LogError, UnsupportedFormatError) as error:
        folder = layout.readers_folder(root, stream)
        name = _problem(error, f"{folder}/").partition(" ")[0]  # the name of a job's file has no spaces
        path = f"{folder}/{name}"
        found.append(
            StreamFault(path, _problem(error, path), f"nothing of {stream}, but its retention deletes nothing")
        )
    return found


def _problem(error: AnabranchError, path: str) -> str:
    """An error's text without the ``path`` at its beginning. (The text can't be cut at its first space, because a
    path can contain spaces.)
    """
    return error.what.removeprefix(path).strip()


def _settled(log: Log, stream: str, number: int) -> list[StreamFault]:
    """The problems of a partition. If records are deleted during the check, the check is repeated."""
    path = Path(layout.start_path(str(log.root), stream, number))
    while True:
        before = path.read_bytes() if path.exists() else None
        found = [*_of_partition(str(log.root), stream, number)]
        if not found or before == (path.read_bytes() if path.exists() else None):
            return found


def _of_partition(root: str, stream: str, number: int) -> Iterator[StreamFault]:
    folder, segments = layout.manifest_folder(root, stream, number), layout.segments_folder(root, stream, number)
    where = f"{stream}, partition {number}"
    if not os.path.isdir(folder):
        yield StreamFault(folder, "is missing", f"all of {where}")
        return
    path = start.of_manifest(folder)
    try:
        begins = start.read(path)
    except (LogError, UnsupportedFormatError) as error:
        yield StreamFault(path, _problem(error, path), f"all of {where}")
        return
    last = max(partition.sequences(folder), default=-1)
    if last < 0:
        yield StreamFault(folder, "has no entries, not even its first", f"all of {where}")
        return
    end = begins.offset
    for sequence in range(begins.sequence, max(last, begins.sequence) + 1):
        path = partition.path_of(folder, sequence)
        try:
            entry = partition.read(folder, sequence)
        except (LogError, UnsupportedFormatError) as error:
            yield StreamFault(path, _problem(error, path), f"{where} from offset {end} on")
            return
        if entry is None:
            why = "and entries after it are there" if sequence < last else "where the partition begins"
            yield StreamFault(path, f"is missing, {why}", f"{where} from offset {end} on")
            return
        if entry.base != end:
            yield StreamFault(path, f"begins at offset {entry.base} instead of {end}", f"{where} from offset {end} on")
            return
        for segment in entry.segments:
            file, after = f"{segments}/{segment.file}", end + segment.rows
            size = os.stat(file).st_size if os.path.exists(file) else None
            if size != segment.bytes:
                problem = "is missing" if size is None else f"has {size} bytes instead of {segment.bytes}"
                yield StreamFault(file, problem, f"{where}, offsets {end} to {after - 1}")
            end = after
