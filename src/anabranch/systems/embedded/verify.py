"""Checks every file of a stream: whether its manifests have no holes, and its segments are as they were written."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from anabranch.errors import LogError, UnsupportedFormatError
from anabranch.systems.contract import StreamFault
from anabranch.systems.embedded import layout, partition
from anabranch.systems.embedded.log import Log

__all__ = ["faults"]

_ENTRY = re.compile(r"(\d{20})\.json")


def faults(log: Log, stream: str) -> list[StreamFault]:
    """Everything that is wrong with a stream, which others may be writing to.

    Raises:
        NotFoundError: there is no such stream.
    """
    try:
        count = log.describe(stream).partitions
    except (LogError, UnsupportedFormatError) as error:
        return [StreamFault(layout.info_path(str(log.root), stream), error.what.partition(" ")[2], f"all of {stream}")]
    return [fault for number in range(count) for fault in _of_partition(str(log.root), stream, number)]


def _of_partition(root: str, stream: str, number: int) -> Iterator[StreamFault]:
    folder, segments = layout.manifest_folder(root, stream, number), layout.segments_folder(root, stream, number)
    where = f"{stream}, partition {number}"
    try:
        sequences = {int(match[1]) for name in os.listdir(folder) if (match := _ENTRY.fullmatch(name))}
    except FileNotFoundError:
        yield StreamFault(folder, "is missing", f"all of {where}")
        return
    if not sequences:
        yield StreamFault(folder, "has no entries, not even its first", f"all of {where}")
        return
    end = 0
    for sequence in range(max(sequences) + 1):
        path = partition.path_of(folder, sequence)
        try:
            entry = partition.read(folder, sequence)
        except (LogError, UnsupportedFormatError) as error:
            yield StreamFault(path, error.what.removeprefix(path).strip(), f"{where} from offset {end} on")
            return
        if entry is None:
            yield StreamFault(path, "is missing, and entries after it are there", f"{where} from offset {end} on")
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
