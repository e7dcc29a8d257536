"""Edits the plans of batches in a checkpoint folder. These plans determine where the next batch begins.

The folder must be a new copy, in which no query has run, unless a function's docstring says otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from anabranch.container.checkpoint import offset_log
from anabranch.container.checkpoint.folder import Folder
from anabranch.container.checkpoint.offset_log import Entry
from anabranch.event_time.progress import Progress

__all__ = ["NewStream", "add_stream", "adopt", "keep", "mend_time", "reset_time", "rewind", "widen"]


@dataclass(frozen=True)
class NewStream:
    """A stream that a lane begins to read.

    Attributes:
        after: the stream whose source directly precedes this stream's source in the query.
        offset: an offset in Spark's format that contains no partitions yet.
    """

    name: str
    id: str
    after: str
    offset: dict[str, Any]


def reset_time(folder: Folder, now: Progress) -> None:
    """Make the lane continue like a new lane whose event time is ``now``, without the former watermark."""
    last = folder.planned()
    entry, (version, told, rest) = folder.entry(last), folder.commit(last)
    time = entry.metadata["batchTimestampMs"]
    if entry.drains and folder.exists(f"offsets/{last - 1}"):
        time = folder.entry(last - 1).metadata["batchTimestampMs"]
    reset = entry.with_watermark(0).with_time(time).with_progress(now)
    folder.tree.write(f"offsets/{last}", offset_log.format(reset))
    reset_commit = json.dumps({**told, "nextBatchWatermarkMs": 0})
    folder.tree.write(f"commits/{last}", "\n".join([version, reset_commit, *rest]))


def mend_time(folder: Folder) -> None:
    """Set the pending batch's processing time to the batch's watermark. This is necessary if the clock was set back
    before the batch was planned. The folder needn't be a copy: the lane's own folder can also be edited
    if no query is running in it."""
    last = folder.planned()
    folder.tree.write(f"offsets/{last}", offset_log.format(folder.entry(last).planned_in_time()))


def keep(folder: Folder, partitions: Mapping[str, Iterable[int]]) -> None:
    """In every entry of the offset log, keep only the ``partitions`` of each stream."""
    kept = {stream: set(numbers) for stream, numbers in partitions.items()}
    for batch in folder.tree.numbers("offsets"):
        folder.tree.write(f"offsets/{batch}", offset_log.format(folder.entry(batch).keeping(kept)))


def rewind(folder: Folder, positions: Mapping[str, Mapping[int, int]]) -> None:
    """Make the next batch begin at ``positions``: offsets by stream and partition.

    Another lane has run the folder's last batch. The plan of this batch is changed as if the batch had ended at
    ``positions``.
    """
    last = folder.planned()
    entry = folder.entry(last)
    for stream, number in folder.sources(last).items():
        entry = entry.with_positions(number, {**entry.positions(number), **positions.get(stream, {})})
    folder.tree.write(f"offsets/{last}", offset_log.format(entry))


def adopt(folder: Folder, stream: str, id: str, positions: Mapping[int, int], *, anew: bool) -> None:
    """Make the next batch read ``stream`` from ``positions``: offsets by partition. The stream now has the id ``id``.
    The plans of earlier batches are changed, too, because the lane may have to go back to one of them if files are
    damaged.

    Args:
        anew: whether ``stream`` is now a different stream with the same name. If it is still the same stream, the
            offsets in a plan are lowered where necessary, but never raised.
    """
    for batch in folder.tree.numbers("offsets"):
        entry, source = folder.entry(batch), folder.sources(batch).get(stream)
        if source is not None:
            known = entry.positions(source)
            to = {p: positions.get(p, at) if anew else min(at, positions.get(p, at)) for p, at in known.items()}
            folder.tree.write(
                f"offsets/{batch}", offset_log.format(entry.with_id(source, id).with_positions(source, to))
            )
    folder.note_stream(stream, id)


def add_stream(folder: Folder, stream: NewStream) -> None:
    """Make the next batch read one more stream. Does nothing if the lane already reads the stream, or if no batch was
    planned."""
    last = folder.planned()
    if last < 0 or stream.name in folder.sources(last):
        return
    number = folder.sources(last)[stream.after] + 1
    # Batches before the last one aren't run again, but Spark requires the same number of sources in their entries.
    for batch in folder.tree.numbers("offsets"):
        entry = folder.entry(batch).with_source(number, stream.offset if batch == last else None)
        folder.tree.write(f"offsets/{batch}", offset_log.format(entry))
    folder.note_stream(stream.name, stream.id)


def widen(folder: Folder, partitions: Mapping[str, Mapping[int, int]]) -> None:
    """Make the next batch read more partitions. ``partitions`` contains their start offsets, by stream and partition.
    Does nothing if no batch was planned. Call this only if no batch is pending.
    """
    last = folder.planned()
    if last >= 0 and partitions:
        folder.tree.write(f"offsets/{last}", offset_log.format(_widened(folder, last, partitions)))


def _widened(folder: Folder, batch: int, partitions: Mapping[str, Mapping[int, int]]) -> Entry:
    entry = folder.entry(batch)
    for stream, number in folder.sources(batch).items():
        entry = entry.with_positions(number, {**partitions.get(stream, {}), **entry.positions(number)})
    return entry
