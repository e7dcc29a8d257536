"""Reads and copies the files of the streams that become part of a backup. If a file is damaged or missing, the backup
fails. If a file's records were deleted after the stream was cut, another attempt can succeed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from anabranch.backup import manifest
from anabranch.backup.cut import MovedOnError, PartitionCopy, Place
from anabranch.backup.mirror import copy_all
from anabranch.container.checkpoint.filesystem import File, Tree
from anabranch.errors import DamagedError, LogError
from anabranch.systems.archive import Archive, ArchivedFile, DeletedError, StreamCut

__all__ = ["Streams", "copy", "partitions"]

Streams = Mapping[str, tuple[str, Archive]]
"""The streams that become part of the backup, each with the name and the archive of its system."""


def partitions(job: str, streams: Streams, cuts: Mapping[str, StreamCut]) -> dict[Place, PartitionCopy]:
    """The partitions of the streams, as of the cuts.

    Raises:
        MovedOnError: records were deleted after the streams were cut, or a stream got more partitions.
        DamagedError: a file of a stream is damaged or missing.
    """
    found: dict[Place, PartitionCopy] = {}
    for stream, (_, archive) in streams.items():
        with _explained(job, stream):
            batches, later = archive.batches(stream, cuts[stream]), archive.later(stream, cuts[stream])
            partitions_now = len(archive.cut(stream).ends)
        if partitions_now != len(cuts[stream].ends):  # a batch may have written to partitions that the cut lacks
            raise MovedOnError(f"stream {stream} had {len(cuts[stream].ends)} partitions, and has {partitions_now} now")
        for number, end in enumerate(cuts[stream].ends):
            found[stream, number] = PartitionCopy(end, batches[number], later[number])
    return found


def copy(job: str, tree: Tree, streams: Streams, cuts: Mapping[str, StreamCut]) -> None:
    """Copy the streams, up to the cuts, to the backup in ``tree``. Meanwhile, records can be written to the streams.

    Raises:
        MovedOnError: records were deleted after the streams were cut.
        DamagedError: a file of a stream is damaged or missing, or doesn't have the size with which it was written.
    """
    for stream, (system, archive) in streams.items():
        place = tree.other(f"{tree.path.toString()}/{manifest.place_of(system)}")
        with _explained(job, stream):
            files = [*archive.files(stream, cuts[stream])]
            copy_all(tree.other(f"file://{archive.folder}"), place, [each.name for each in files], lives=True)
            copied = place.files(stream)
            for file in files:
                if problem := _problem(file, copied.get(file.name)):
                    path = archive.folder / file.name
                    raise DeletedError(path) if archive.is_deleted(stream, file) else LogError(f"{path} {problem}")
            for name, text in archive.descriptions(stream, cuts[stream]).items():
                place.write(name, text)


def _problem(file: ArchivedFile, copy: File | None) -> str:
    """What is wrong with a file, given its copy; '' if nothing is. If there is no copy, the file was missing."""
    if copy is None:
        return "is missing"
    if file.size is not None and copy.size != file.size:
        return f"has {copy.size} bytes instead of {file.size}"
    return ""


@contextmanager
def _explained(job: str, stream: str) -> Iterator[None]:
    try:
        yield
    except DeletedError as error:
        raise MovedOnError(f"stream {stream}: {error} was deleted") from error
    except LogError as error:
        raise DamagedError(
            f"stream {stream} can't be backed up: {error.what}",
            f"list everything that is wrong: anabranch check {job}; an older backup has that file, if there is one",
        ) from error
