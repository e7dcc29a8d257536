"""Finds the files that a restart needs but can't use, and determines from which batch the lane can continue."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from anabranch.container.checkpoint import checksums, offset_log
from anabranch.errors import DamagedError
from anabranch.model.lane import Lane

__all__ = ["Checkpoint", "Fault", "Resumption", "faults", "least", "resumption"]

_VERSIONED = re.compile(
    r"state/(?P<operator>\d+)/(?P<partition>\d+)/(?:(?P<store>[^/_][^/]*)/)?"
    r"(?P<version>\d+)(?:_[^/]+)?\.(?P<kind>changelog|delta|zip|snapshot)"
)
_SCHEMA = re.compile(r"state/(?:\d+/_metadata/metadata|\d+/\d+/(?:[^/_][^/]*/)?_metadata/schema)")
_SNAPSHOTS = ("zip", "snapshot")
_BEGIN = re.compile(r"sources/\d+/0")
"""Matches the file in which a source such as Spark's Kafka connector stores the offsets at which it begins."""
_STARTING = "starting.json"
_MOST_READ = 4 << 20
"""The size in bytes up to which files are always compared with their checksums. Larger files are compared only in a
thorough check."""
_FARTHEST = 1000
"""How many batches to go back, at most, in search of an intact batch. The limit is well above the hundred batches that
Spark keeps by default."""


@dataclass(frozen=True)
class Fault:
    """A file that a lane needs but can't use.

    Attributes:
        role: what the file contains.
        problem: what is wrong, as the rest of a sentence that begins with the file's path.
    """

    name: str
    role: str
    problem: str


@dataclass(frozen=True)
class Resumption:
    """Where a lane continues. If ``pending``, the lane runs ``batch`` again. Otherwise, the lane continues after
    ``batch``, or from its beginning if ``batch`` is -1."""

    batch: int
    pending: bool


@dataclass(frozen=True)
class Checkpoint:
    """The files of a lane's folder.

    Args:
        sizes: the sizes of all files, in bytes, by their paths in the folder.
        read: returns the content of a file, given its path in the folder.
        partitions: how many partitions the state of each operator has; 0 if the lane has no state.
        thorough: whether large files are also compared with their checksums.
        least: a batch that must be in the folder; -1 if there is no such batch. The lane has planned this batch, or has
            taken it over with the folder. See :func:`least`.
    """

    sizes: Mapping[str, int]
    read: Callable[[str], bytes]
    partitions: int = 0
    thorough: bool = False
    least: int = -1

    @cached_property
    def planned(self) -> int:
        """The last batch that was planned, -1 if none."""
        return max(self._numbers("offsets"), default=-1)

    @cached_property
    def committed(self) -> int:
        """The last batch that was committed, -1 if none."""
        return max(self._numbers("commits"), default=-1)

    @property
    def version(self) -> int:
        """The version of the state from which the lane continues. This version is the number of batches that have
        contributed to the state."""
        return self.planned if self.planned > self.committed else self.committed + 1

    def _numbers(self, folder: str) -> Iterator[int]:
        for name in self.sizes:
            place, _, file = name.rpartition("/")
            if place == folder and file.isdecimal():
                yield int(file)

    def offsets(self, batch: int) -> Fault | None:
        """The problem with the entry of a planned batch, if there is one."""
        return self._text(f"offsets/{batch}", f"where batch {batch} begins and ends", _check_offsets)

    def commit(self, batch: int) -> Fault | None:
        """The problem with the commit file of a batch, if there is one."""
        return self._text(f"commits/{batch}", f"the note that batch {batch} is committed", _check_commit)

    def state(self, version: int) -> Fault | None:
        """The problem with the state after the first ``version`` batches, if there is one."""
        if not self.partitions or not version:
            return None
        operators = sorted({operator for operator, _, _ in self._stores})
        if not operators:
            return Fault("state", f"the lane's state after batch {version - 1}", "is missing or holds no state")
        for operator in operators:
            for partition in map(str, range(self.partitions)):
                stores = [store for each, its, store in self._stores if (each, its) == (operator, partition)]
                if not stores:
                    return Fault(f"state/{operator}/{partition}", _role(version), "is missing or holds no state")
                for store in stores:
                    fault = self._store((operator, partition, store), version)
                    if fault is not None:
                        return fault
        schemas = (name for name in self.sizes if _SCHEMA.fullmatch(name))
        return next((fault for name in schemas if (fault := self._bytes(name, "what the state's rows are"))), None)

    def useless_snapshots(self) -> list[tuple[str, Fault]]:
        """The unusable snapshots that Spark would try to read, each with its problem. Once these snapshots are
        removed, Spark reconstructs the state from older files. Call this only if the older files are intact."""
        found = []
        for files in self._stores.values() if self.partitions else ():
            for number in range(self.version, -1, -1):
                faults = self._snapshots(files.get(number, ()))
                found += [(name, fault) for name, fault in faults.items() if fault is not None]
                if faults and not any(faults.values()):
                    break
        return found

    def useless_begins(self) -> list[tuple[str, Fault]]:
        """The unusable files that say where the query's sources begin, each with its problem. Spark reads such files
        until a batch is committed. Once these files are removed, the sources begin at the lane's start offsets. Empty
        if a batch is planned and the lane's start offsets aren't stored: the batch might then begin elsewhere.
        """
        if self.committed >= 0 or (self.planned >= 0 and _STARTING not in self.sizes):
            return []
        found = ((name, self._begin(name)) for name in sorted(self.sizes) if _BEGIN.fullmatch(name))
        return [(name, fault) for name, fault in found if fault is not None]

    def _begin(self, name: str) -> Fault | None:
        role = "where a source of the query begins"
        content = self.read(name)
        fault = self._bytes(name, role)
        if fault is not None or not content.startswith(b"\0"):  # other sources than Kafka's have formats of their own
            return fault
        try:
            json.loads(content.partition(b"\n")[2])
        except ValueError as error:
            return Fault(name, role, f"is damaged ({error})")
        return None

    @cached_property
    def _stores(self) -> dict[tuple[str, str, str], dict[int, list[str]]]:
        stores: dict[tuple[str, str, str], dict[int, list[str]]] = {}
        for name in self.sizes:
            if (match := _VERSIONED.fullmatch(name)) is not None:
                place = match["operator"], match["partition"], match["store"] or ""
                stores.setdefault(place, {}).setdefault(int(match["version"]), []).append(name)
        return stores

    def _store(self, place: tuple[str, str, str], version: int) -> Fault | None:
        """Why one part of the state after the first ``version`` batches can't be reconstructed; None if it can. Spark
        reconstructs the part from the last usable snapshot, if there is one, and from the changes since then."""
        files = self._stores[place]
        unusable: Fault | None = None
        for number in range(version, -1, -1):
            names = files.get(number, [])
            snapshots = self._snapshots(names)
            unusable = unusable or next(filter(None, snapshots.values()), None)
            if number == 0 or (snapshots and not any(snapshots.values())):
                return None
            changes = [name for name in names if name not in snapshots]
            if not changes:
                operator, partition, store = place
                folder = "/".join(filter(None, ("state", operator, partition, store)))
                return unusable or Fault(f"{folder}/{number}.changelog", _role(number), "is missing")
            fault = next((fault for name in changes if (fault := self._bytes(name, _role(number)))), None)
            if fault is not None:
                return unusable or fault
        return None

    def _snapshots(self, names: Iterable[str]) -> dict[str, Fault | None]:
        """The problem of each snapshot among the files ``names``, by the snapshot's name. The problem is None if the
        snapshot is usable."""
        snapshots = [name for name in names if name.rpartition(".")[2] in _SNAPSHOTS]
        self._known_snapshots.update({name: self._snapshot(name) for name in {*snapshots} - {*self._known_snapshots}})
        return {name: self._known_snapshots[name] for name in snapshots}

    @cached_property
    def _known_snapshots(self) -> dict[str, Fault | None]:
        return {}

    def _snapshot(self, name: str) -> Fault | None:
        role = f"all of the state after batch {int(name.rpartition('/')[2].split('.')[0].split('_')[0]) - 1}"
        fault = self._bytes(name, role)
        if fault is not None or not name.endswith(".zip") or not self._is_read(name):
            return fault
        try:
            with zipfile.ZipFile(io.BytesIO(self.read(name))) as archive:
                described = json.loads(archive.read("metadata").decode().partition("\n")[2])
        except (KeyError, ValueError, zipfile.BadZipFile) as error:
            return Fault(name, role, f"is damaged ({error})")
        folder = name.rpartition("/")[0]
        for table in described.get("sstFiles", ()):
            path, size = f"{folder}/SSTs/{table['dfsSstFileName']}", table["sizeBytes"]
            if path not in self.sizes:
                return Fault(path, role, "is missing")
            if self.sizes[path] != size:
                return Fault(path, role, f"has {self.sizes[path]:,} bytes instead of {size:,}")
        return None

    def _text(self, name: str, role: str, check: Callable[[str], None]) -> Fault | None:
        fault = self._bytes(name, role)
        if fault is not None:
            return fault
        try:
            check(self.read(name).decode())
        except DamagedError as error:
            return Fault(name, role, f"is damaged ({error.what.partition(': ')[2]})")
        except (ValueError, TypeError, AttributeError) as error:
            return Fault(name, role, f"is damaged ({error})")
        return None

    def _bytes(self, name: str, role: str) -> Fault | None:
        if name not in self.sizes:
            return Fault(name, role, "is missing")
        if not self.sizes[name]:
            return Fault(name, role, "is empty")
        checksum = checksums.name_of(name)
        if (
            checksum in self.sizes
            and self._is_read(name)
            and not checksums.agrees(self.read(name), self.read(checksum))
        ):
            return Fault(name, role, f"doesn't match its checksum ({checksum.rpartition('/')[2]})")
        return None

    def _is_read(self, name: str) -> bool:
        return self.thorough or self.sizes[name] <= _MOST_READ


def least(lane: Lane) -> int:
    """The latest batch that, according to the store, must be in a lane's folder; -1 if there is none.

    If the lane has taken over the folder of a former lane, the result is the former lane's last batch. If the lane has
    its own folder and has ever ended after committing a batch, the result is batch 0. Later batches don't count,
    because a repair of damaged files may have discarded them.
    """
    return max(lane.first_batch - 1, min(lane.last_batch, 0))


def faults(checkpoint: Checkpoint) -> list[Fault]:
    """The files of ``checkpoint`` that a restart needs but can't use. If several such files contain state, only one of
    them is returned."""
    planned, committed = checkpoint.planned, checkpoint.committed
    last = max(planned, committed)
    if last < checkpoint.least:
        problem = f"has no batch after {last}, but the store knows batch {checkpoint.least} of the lane"
        return [Fault("offsets", "where the lane's batches begin and end", problem)]
    if last < 0:
        return []
    batch = _before(checkpoint, planned) if planned > committed else _after(checkpoint, last)
    needed = [checkpoint.offsets(last), *batch, checkpoint.state(checkpoint.version)]
    return [fault for fault in needed if fault is not None]


def resumption(checkpoint: Checkpoint, first: int, published: int) -> Resumption | None:
    """Where the lane can continue without losing or repeating anything. None if this is impossible, or if the lane
    would have to go back more than ``_FARTHEST`` batches.

    The result names the latest batch that has an intact plan and meets one of these conditions:

    - The batch's commit, the plan of the previous batch and the state after the batch are intact. The lane then
      continues after the batch.
    - The plan and the commit of the previous batch are intact, and so is the state before the batch. The lane then runs
      the batch again.

    The result is never a batch before ``published``: if the lane continued after an earlier batch, the lane would
    repeat output. The batch ``published`` itself can be run again, because the outputs know which part of this batch
    they contain.

    If no batch is suitable, the lane may still be able to start from its beginning. It can do so only if batch 0 is
    its first and only batch, if ``checkpoint.least`` is -1, and if nothing is published.

    Args:
        first: the lane's first batch. The batch before ``first`` belonged to another lane. The lane can continue after
            that batch, but can't run that batch again.
        published: the last batch that is in an exactly-once output or a table, at least in part; -1 if none.
    """
    last = max(checkpoint.planned, checkpoint.committed)
    for batch in range(last, max(first - 2, last - _FARTHEST, -1), -1):
        if batch < published:
            return None
        if checkpoint.offsets(batch) is not None:
            continue
        if not any(_after(checkpoint, batch)) and checkpoint.state(batch + 1) is None:
            return Resumption(batch, pending=False)
        if batch >= first and not any(_before(checkpoint, batch)) and checkpoint.state(batch) is None:
            return Resumption(batch, pending=True)
    begins_anew = first == 0 and last == 0 and checkpoint.least < 0 and published < 0
    return Resumption(-1, pending=False) if begins_anew else None


def _before(checkpoint: Checkpoint, batch: int) -> list[Fault | None]:
    return [checkpoint.offsets(batch - 1), checkpoint.commit(batch - 1)] if batch else []


def _after(checkpoint: Checkpoint, batch: int) -> list[Fault | None]:
    """The problems with what a start after ``batch`` needs besides the batch's own plan. Spark then also reads the plan
    of the batch before, although that plan no longer matters."""
    return [checkpoint.offsets(batch - 1) if batch else None, checkpoint.commit(batch)]


def _role(version: int) -> str:
    return f"what batch {version - 1} changed in the lane's state"


def _check_offsets(text: str) -> None:
    entry = offset_log.parse(text)
    if not entry.sources:
        raise ValueError("it names no source")


def _check_commit(text: str) -> None:
    version, _, rest = text.partition("\n")
    if not version.startswith("v"):
        raise ValueError(f"it begins with {version[:20]!r}")
    json.loads(rest)
