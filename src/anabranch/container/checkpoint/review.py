"""Checks the folders of a job's lanes, and the job's inputs and outputs, without changing anything. If the folders are
on a local disk, these checks don't need Spark.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from anabranch import own_files
from anabranch.config.storage import local_folder
from anabranch.container.checkpoint import offset_log, soundness
from anabranch.container.checkpoint.soundness import Checkpoint, Resumption
from anabranch.errors import AnabranchError, NotFoundError
from anabranch.model.lane import Lane
from anabranch.systems.systems import Systems
from anabranch.tables import marks

__all__ = ["Finding", "LaneFiles", "in_use", "local_files", "of_lane", "of_streams", "settled"]

_DOCUMENTS = {
    "streams.json": "which streams the lane has read",
    "starting.json": "where the lane began to read",
    "progress.json": "how far the lane was in event time",
}
_METADATA = "metadata"
_LOOKS = 10
"""The maximum number of times that a lane is checked if its folder keeps changing."""

T = TypeVar("T")


@dataclass(frozen=True)
class Finding:
    """A problem that the check has found.

    Attributes:
        part: the lane or stream.
        path: the file, folder or SSP that has the problem; empty if the problem is elsewhere.
        problem: what is wrong. If there is a ``path``, the text continues a sentence that begins with the path.
        lost: what can't be recovered without a backup; empty if nothing is lost, or if the loss isn't known.
        mends: what ``--repair`` does about the problem; empty if ``--repair`` does nothing about it.
    """

    part: str
    path: str
    problem: str
    lost: str = ""
    mends: str = ""


@dataclass(frozen=True)
class LaneFiles:
    """A lane and its folder. ``files`` is None if the folder is gone."""

    lane: Lane
    uri: str
    files: Checkpoint | None

    @property
    def sizes(self) -> Mapping[str, int]:
        """The sizes of the files, by name; empty if the folder is gone."""
        return {} if self.files is None else self.files.sizes

    def document(self, name: str) -> dict[str, Any]:
        """The JSON object in a file of the folder; {} if there is no such file. Raises ValueError if the file is
        damaged."""
        assert self.files is not None
        if name not in self.files.sizes:
            return {}
        parsed = json.loads(self.files.read(name).decode())
        if not isinstance(parsed, dict):
            raise ValueError("it isn't a JSON object")
        return parsed


def local_files(root: str, lane: Lane) -> LaneFiles | None:
    """The files of a lane; None if the storage root isn't on a local disk.

    Raises:
        OSError: a folder can't be listed.
    """
    place = local_folder(root)
    if place is None:
        return None
    folder = place / lane.job / lane.id / str(lane.folder_epoch)
    if not folder.is_dir():
        return LaneFiles(lane, str(folder), None)
    sizes = {}
    for each in own_files.below(folder):
        with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
            sizes[os.path.relpath(each, folder)] = os.stat(each).st_size
    partitions = lane.state_partitions if lane.stateful else 0
    least = soundness.least(lane)
    files = Checkpoint(sizes, lambda name: (folder / name).read_bytes(), partitions, thorough=True, least=least)
    return LaneFiles(lane, str(folder), files)


def in_use(root: str, lane: Lane) -> bool:
    """Whether a process has locked a lane's folder; see :meth:`Folder.lock`. False if the storage root isn't on a local
    disk."""
    place = local_folder(root)
    if place is None:
        return False
    try:
        descriptor = os.open(f"{place / lane.job / lane.id / str(lane.folder_epoch)}.lock", os.O_RDONLY)
    except OSError:  # no process has ever locked the folder, or it isn't for us to see
        return False
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return True
    except OSError:  # the file system has no locks
        return False
    finally:
        os.close(descriptor)
    return False


def settled(look: Callable[[], LaneFiles], systems: Systems, published: Callable[[Lane], int]) -> list[Finding] | None:
    """Check a lane with :func:`of_lane`. If a problem is found, the folder is listed again. If a process has changed
    the folder in the meantime, the check is repeated. Returns None if the folder keeps changing, which means that a
    process is running the lane.

    Args:
        look: lists the lane's folder.
    """
    files = look()
    for _ in range(_LOOKS):
        found: list[Finding] | None = None
        with contextlib.suppress(FileNotFoundError):  # a file was deleted after it was listed
            found, _ = of_lane(files, systems, published)
        before, files = files, look() if found != [] else files
        if found is not None and before.sizes == files.sizes:
            return found
    return None


def of_lane(
    found: LaneFiles, systems: Systems, published: Callable[[Lane], int]
) -> tuple[list[Finding], Resumption | None]:
    """Check a stopped lane. Returns the lane's problems, and the Resumption with which the lane's folder can be
    repaired. There is no Resumption if the folder can't be repaired, if no repair is necessary, or if it
    isn't known which batches the outputs contain.

    Args:
        published: given a lane, returns the lane's last batch that is in an exactly-once output or a table; -1 if
            there is no such batch. Raises AnabranchError if the last batch isn't known.
    """
    lane, part = found.lane, f"lane {found.lane.id}"
    if found.files is None:
        lost = "its positions" + (" and its state" if lane.stateful else "")
        return [Finding(part, found.uri, "is missing: it is the folder of the lane", lost)], None
    findings = [*_documents(found)]
    faults = soundness.faults(found.files)
    try:
        seen = published(lane)
    except AnabranchError as error:
        findings.append(Finding(part, "", f"it isn't known which of its batches the outputs contain: {error.what}"))
        seen = None
    resumed = None
    if faults and seen is not None:
        resumed = soundness.resumption(found.files, lane.first_batch, seen)
    for fault in faults:
        problem = f"{fault.problem}: it contains {fault.role}"
        lost = "" if resumed is not None else "its positions" + (" and its state" if lane.stateful else "")
        findings.append(Finding(part, f"{found.uri}/{fault.name}", problem, lost, _mends(resumed)))
    if not faults:
        snapshot = "removes the snapshot: the state is built from older files"
        begin = "removes the file: the lane's start offsets say the same"
        useless = [(fault, snapshot) for _, fault in found.files.useless_snapshots()]
        useless += [(fault, begin) for _, fault in found.files.useless_begins()]
        for fault, mends in useless:
            problem = f"{fault.problem}: it contains {fault.role}"
            findings.append(Finding(part, f"{found.uri}/{fault.name}", problem, "", mends))
        findings += _outputs(found, systems, tables=seen is not None)
        findings += _inputs(found, systems)
        last = found.files.planned
        if seen is not None and seen > last:
            problem = f"has no batch after {last}, but the outputs hold batch {seen}: it is an older copy of the folder"
            findings.append(Finding(part, found.uri, problem, f"the positions and the state after batch {last}"))
    return findings, resumed


def of_streams(systems: Systems, streams: Iterable[tuple[str, str]]) -> list[Finding]:
    """The problems with the files of ``streams``, which contains pairs of a system and a stream. Missing streams are
    reported by :func:`of_lane`."""
    findings = []
    for system, stream in sorted(streams):
        with contextlib.suppress(NotFoundError):
            faults = systems.named(system).faults(stream)
            findings += [Finding(f"stream {stream}", each.path, each.problem, each.lost) for each in faults]
    return findings


def _mends(resumed: Resumption | None) -> str:
    if resumed is None:
        return ""
    if resumed.batch < 0:
        return "starts the lane from its beginning: it has written nothing yet"
    if resumed.pending:
        return f"runs batch {resumed.batch} again: outputs skip what they already have of the batch"
    return f"continues after batch {resumed.batch}: nothing of a later batch was written"


def _documents(found: LaneFiles) -> Iterator[Finding]:
    assert found.files is not None
    part = f"lane {found.lane.id}"
    for name, role in _DOCUMENTS.items():
        try:
            found.document(name)
        except ValueError as error:
            yield Finding(part, f"{found.uri}/{name}", f"is damaged ({error}): it contains {role}", role)
    if found.files.planned < 0 and _METADATA not in found.files.sizes:
        return
    try:
        if not found.document(_METADATA).get("id"):
            raise ValueError("it has no id")
    except ValueError as error:
        mends = "gives the query another id, as each copy of a folder has"
        yield Finding(part, f"{found.uri}/{_METADATA}", f"is damaged ({error}): it is the query's id", "", mends)


def _positions(found: LaneFiles, systems: Systems) -> dict[str, dict[int, int]]:
    assert found.files is not None
    last = found.files.committed
    if last < 0:
        return {}
    text = found.files.read(f"offsets/{last}").decode()
    entry = offset_log.parse(text, streams_by_topic=systems.streams_by_topic)
    return {stream: entry.positions(number) for stream, number in entry.streams().items()}


def _inputs(found: LaneFiles, systems: Systems) -> Iterator[Finding]:
    """A finding for each input partition that ends before the lane's position, and for each input whose end offsets
    can't be looked up."""
    at = {ssp.stream: ssp.system for ssp in (*found.lane.ssps, *found.lane.broadcast)}
    for stream, positions in _positions(found, systems).items():
        if stream not in at:
            continue
        ends = _asked(lambda stream=stream: systems.named(at[stream]).high_watermarks(stream))  # type: ignore[misc]
        if isinstance(ends, Finding):
            yield ends
            continue
        for number, position in positions.items():
            if ends.get(number, 0) < position:
                problem = f"ends at offset {ends.get(number, 0)}, but the lane has already read it up to {position}"
                where = f"{at[stream]}/{stream}/{number}"
                yield Finding(
                    f"lane {found.lane.id}", where, problem, "records at its end, which the lane has already processed"
                )


def _outputs(found: LaneFiles, systems: Systems, *, tables: bool) -> Iterator[Finding]:
    """The findings about output streams and tables. There is a finding for each output that contains less than the
    lane has written to it, as recorded in the lane's folder, and for each output that can't be looked up."""
    try:
        noted: Mapping[str, Mapping[str, Any]] = found.document("outputs.json")
    except ValueError:
        return  # the file is written again, and nothing depends on it
    if tables:
        yield from _output_tables(found.lane, noted.get("tables", {}), systems)
    for stream, partitions in noted.get("streams", {}).items():
        if stream not in found.lane.outputs or systems.is_table(stream):
            continue
        system = found.lane.system(stream)
        ends = _asked(lambda stream=stream, system=system: systems.named(system).high_watermarks(stream))  # type: ignore[misc]
        if isinstance(ends, Finding):
            yield ends
            continue
        for number, before in partitions.items():
            now = ends.get(int(number), 0)
            if now < before:
                problem = (
                    f"ends at offset {now}, but it used to end at {before}: it was restored from an older copy, or "
                    "deleted and created again"
                )
                lost = f"offsets {now} to {before - 1}, which the lane won't write again"
                yield Finding(f"lane {found.lane.id}", f"{system}/{stream}/{number}", problem, lost)


def _output_tables(lane: Lane, noted: Mapping[str, int], systems: Systems) -> Iterator[Finding]:
    for output, before in noted.items():
        if before < lane.first_batch or output not in lane.outputs or not systems.is_table(output):
            continue  # a predecessor's batch, from whose folder this one was copied; or no longer an output
        now = _asked(lambda output=output: systems.table(output).last(lane.job, lane.id), "table")  # type: ignore[misc]
        if isinstance(now, Finding):
            yield now
        elif now < before:
            error = marks.set_back(f"the table {output!r}", lane.job, lane.id, now, before)
            lost = f"the rows of batches {now + 1} to {before}, which the lane won't write again"
            yield Finding(f"lane {lane.id}", "", error.what, lost)


def _asked(ask: Callable[[], T], part: str = "stream") -> T | Finding:
    try:
        return ask()
    except AnabranchError as error:
        return Finding(part, "", error.what)
