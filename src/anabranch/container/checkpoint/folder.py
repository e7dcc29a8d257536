"""A lane's checkpoint folder and its surgery, on any storage root."""

from __future__ import annotations

import itertools
import json
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from anabranch import crash_points, logs
from anabranch.container.checkpoint import claims, filesystem, leftovers, offset_log
from anabranch.container.checkpoint.filesystem import Tree
from anabranch.container.checkpoint.leftovers import Kind
from anabranch.container.checkpoint.offset_log import Entry
from anabranch.container.checkpoint.soundness import Checkpoint, Resumption
from anabranch.errors import ConflictError, DamagedError, StateError
from anabranch.event_time import progress
from anabranch.event_time.progress import Progress
from anabranch.spark.internals import checkpoint_layout, hadoop_files
from anabranch.spark.query.planned_batch import Batch

_METADATA = "metadata"
# Commits before offsets: a copy made while the source is still written to never has a commit without its offset.
_COPY_ORDER = ("commits", "offsets", _METADATA, "sources", "state", "streams.json", "starting.json", "outputs.json")
_BEGIN = "sources/0/0"
_STATE = "state"
_STREAMS = "streams.json"
_STARTING = "starting.json"
_OUTPUTS = "outputs.json"
_PROGRESS = "progress.json"
_STANDBY = "standby"
_BROKEN = "broken.json"

log = logs.get_logger()

# The folders that this process has taken.
_cleared: set[str] = set()

# Lock files by path. The JVM closes a file, and so gives up its lock, once nobody in Python holds it any more.
_locked: dict[str, Any] = {}


@dataclass(frozen=True)
class Come:
    """A stream that a lane begins to read, with the ``id`` that it has now. Its source comes behind that of the stream
    ``after``; ``offset`` is as Spark would write it, with no partitions yet."""

    name: str
    id: str
    after: str
    offset: dict[str, Any]


class Folder:
    """A checkpoint folder of a lane that is stopped, or held (or whose files are only read)."""

    def __init__(self, spark: SparkSession, uri: str, streams: Mapping[str, str] | None = None) -> None:
        """``streams``: by topic, where a stream of Kafka's has another name."""
        self._streams = streams or {}
        checkpoint_layout.SURFACE.insist(spark)
        self._spark = spark
        self._tree = Tree(spark, uri)
        self.uri = uri if self._tree.local is not None else self._tree.uri
        self._path, self._fs = self._tree.path, self._tree.fs

    def make(self) -> None:
        self._fs.mkdirs(self._path)

    def exists(self, name: str = "") -> bool:
        return self._tree.has(name)

    def remove(self) -> None:
        """Delete the folder with all that is in it."""
        self._fs.delete(self._path, True)

    def planned(self) -> int:
        """The last batch that was planned, -1 if none."""
        return max(self._tree.numbers("offsets"), default=-1)

    def committed(self) -> int:
        """The last batch that was committed, -1 if none."""
        return max(self._tree.numbers("commits"), default=-1)

    @property
    def pending(self) -> bool:
        """Whether a batch was planned and not committed."""
        return self.planned() > self.committed()

    def entry(self, batch: int) -> Entry:
        """What was planned for a batch."""
        return offset_log.parse(self._tree.read(f"offsets/{batch}"), f"{self.uri}/offsets/{batch}")

    def positions(self) -> dict[str, dict[int, int]]:
        """Stream → partition → next offset, after the last committed batch."""
        last = self.committed()
        if last < 0:
            return {}
        entry = self.entry(last)
        return self._positions(entry)

    def batch(self, number: int) -> Batch:
        """What was planned for a batch, with the positions that it begins from ({}: the lane's first)."""
        entry = self.entry(number)
        before = self.entry(number - 1) if self.exists(f"offsets/{number - 1}") else None
        now = entry.progress() or Progress()
        return Batch(
            number=number,
            begins={} if before is None else self._positions(before),
            ends=self._positions(entry),
            at=entry.at,
            watermark=entry.watermark,
            progress=now,
            drains=entry.drains,
            reached=max(now.watermark or 0, self.next_watermark(number - 1)) if entry.drains else 0,
        )

    def mend_time(self) -> None:
        """Let the pending batch have been planned at its watermark."""
        last = self.planned()
        self._tree.write(f"offsets/{last}", offset_log.format(self.entry(last).planned_in_time()))

    def settled(self) -> bool:
        """Whether the last batch was committed and Spark's watermark calls for no further one."""
        last = self.planned()
        if last < 0:
            return True
        if last > self.committed():
            return False
        return self.next_watermark(last) <= self.entry(last).watermark

    def next_watermark(self, batch: int) -> int:
        """Spark's watermark for the batch after one that was committed; in Unix ms."""
        return int(self._commit(batch)[1].get("nextBatchWatermarkMs", 0))

    def _commit(self, batch: int) -> tuple[str, dict[str, Any], list[str]]:
        """Version, what Spark notes of a committed batch, and further lines."""
        name = f"commits/{batch}"
        version, *rest = self._tree.read(name).split("\n")
        return version, self._parsed(name, rest[0] if rest else ""), rest[1:]

    def _parsed(self, name: str, text: str) -> dict[str, Any]:
        """The JSON object in a file. Raises DamagedError if it is none."""
        try:
            return dict(json.loads(text))
        except (ValueError, TypeError) as error:
            raise DamagedError(
                f"{self.uri}/{name} is damaged: {error if text else 'it is empty'}",
                f"restore that file, or the folder {self.uri}, from a backup; see `anabranch check JOB`",
            ) from error

    def _document(self, name: str) -> dict[str, Any]:
        return self._parsed(name, self._tree.read(name))

    def reset_time(self, now: Progress) -> None:
        """Let the next batch begin in event time as a new lane does that knows ``now``: of a copy, before it runs."""
        last = self.planned()
        entry, (version, told, rest) = self.entry(last), self._commit(last)
        time = entry.metadata["batchTimestampMs"]
        if entry.drains and self.exists(f"offsets/{last - 1}"):
            time = self.entry(last - 1).metadata["batchTimestampMs"]
        reset = entry.with_watermark(0).with_time(time).with_progress(now)
        self._tree.write(f"offsets/{last}", offset_log.format(reset))
        reset_commit = json.dumps({**told, "nextBatchWatermarkMs": 0})
        self._tree.write(f"commits/{last}", "\n".join([version, reset_commit, *rest]))

    def _positions(self, entry: Entry) -> dict[str, dict[int, int]]:
        return {self._streams.get(name, name): entry.positions(number) for name, number in entry.streams().items()}

    def planned_positions(self, batch: int) -> dict[str, dict[int, int]]:
        """Stream → partition → where a batch ends."""
        return self._positions(self.entry(batch))

    def stream_ids(self) -> dict[str, str]:
        """The ids that the streams had when the folder was made: a stream that was made again has another."""
        return self._document(_STREAMS) if self.exists(_STREAMS) else {}

    def note_streams(self, ids: Mapping[str, str]) -> None:
        """Keep the ids of the streams that the lane reads, once."""
        if not self.exists(_STREAMS):
            self._tree.write(_STREAMS, json.dumps(dict(sorted(ids.items()))), new=True)

    def note_outputs(self, noted: Mapping[str, Any]) -> None:
        """Keep where the lane's outputs end; see :class:`Outputs`."""
        self._tree.write(_OUTPUTS, json.dumps(noted), durable=False)

    def outputs(self) -> dict[str, Any]:
        """Where the lane's outputs ended; {}: that isn't known. A power cut may have left the file empty."""
        try:
            return self._document(_OUTPUTS) if self.exists(_OUTPUTS) else {}
        except DamagedError as error:
            log.warning("where the outputs of a lane ended isn't known", folder=self.uri, error=error.what)
            return {}

    def note_starting(self, offsets: Mapping[str, int]) -> dict[str, int]:
        """Keep where the lane begins, by the texts of whole SSPs, once, before its first batch is planned; gives what
        was kept. The ends of the inputs, where a lane may begin, are others when it is started again."""
        if not self.exists(_STARTING):
            if self.planned() >= 0:
                return {}
            self._tree.write(_STARTING, json.dumps(dict(sorted(offsets.items()))), new=True)
        return self._document(_STARTING)

    def begin_at(self, offset: Mapping[str, Any]) -> None:
        """Let the query's only source begin there, whatever its options say, if it looks here for where it began once:
        Spark's connector to Kafka does."""
        if not self.exists(_BEGIN):
            self._fs.mkdirs(self._at(_BEGIN.rpartition("/")[0]))
            self._tree.write(_BEGIN, f"\0v1\n{json.dumps(offset)}", new=True)

    def note_broken(self, batch: int) -> None:
        """Keep that a batch was broken off: there may be state of it, and there may be more for a while."""
        self._tree.write(_BROKEN, json.dumps({"batch": batch}))

    def take_back(self) -> None:
        """Forget the pending batch, of which nothing was published and nothing can be. Its state may stay: what goes on
        from a copy removes that there."""
        if self.pending:
            name = f"offsets/{self.planned()}"
            self._tree.remove(name)
            self._tree.remove(name.replace("/", "/.") + ".crc")

    def clear_broken(self, former: Folder) -> None:
        """Remove from a copy what a batch has left that was broken off in the former folder. No query may have run on
        the copy."""
        if self.planned() < 0:
            self.begin_anew()
        elif former.exists(_BROKEN):
            self.clear_leftovers(anew=False)

    def begin_anew(self) -> None:
        """Forget what was planned, and where the query began. Nothing may have been committed or published."""
        for name in (*leftovers.OF_BATCHES, "sources"):
            self._fs.delete(self._at(name), True)

    def checkpoint(self, partitions: int, *, thorough: bool = False) -> Checkpoint:
        """The files as they are now, to see whether a lane can go on from them; see :class:`Checkpoint`."""
        return Checkpoint(self._tree.sizes(), self._tree.read_bytes, partitions, thorough)

    def resume(self, at: Resumption) -> None:
        """Forget all later batches, and that a batch which is to run again was committed. Nothing of a later one may
        have been published."""
        if at.batch < 0:
            self.begin_anew()
            return
        for log_name, last in (("commits", at.batch - at.pending), ("offsets", at.batch)):
            for number in reversed([each for each in self._tree.numbers(log_name) if each > last]):
                self._tree.remove(f"{log_name}/{number}")
                self._tree.remove(f"{log_name}/.{number}.crc")

    def mend_metadata(self) -> None:
        """Give the query another id if the file with its id can't be read; a copy of the folder has another one, too.
        Spark begins no query that has planned a batch and has no id."""
        if self.planned() < 0:
            return
        try:
            known = bool(json.loads(self._tree.read(_METADATA))["id"]) if self.exists(_METADATA) else False
        except (ValueError, KeyError, TypeError):
            known = False
        if not known:
            log.warning("the id of a lane's query couldn't be read, and is another one now", folder=self.uri)
            self._note_id()

    def _note_id(self) -> None:
        self._tree.write(_METADATA, json.dumps({"id": str(uuid.uuid4())}))

    def clear_leftovers(self, *, anew: bool) -> None:
        """Remove what killed processes have left, so that Spark starts a query here, and runs a pending batch as if it
        had not been begun: no process may be at work in the folder, and no query of this one. ``anew``: the lane has
        written nothing, and may begin once more if no batch was planned."""
        found = leftovers.classify(self._tree.all_files())
        if not anew:
            found = {name: kind for name, kind in found.items() if kind is not Kind.UNPLANNED}
        if self.uri in _cleared:  # a query of this process has ended, and Spark may still write snapshots of its state
            found = {name: kind for name, kind in found.items() if kind is not Kind.SPARKS or name[:6] != f"{_STATE}/"}
        _cleared.add(self.uri)
        for name in found:
            self._tree.remove(name)
        if anew and self.planned() < 0 and self.committed() < 0:
            for name in leftovers.OF_BATCHES:  # Spark minds empty folders below them, too
                self._fs.delete(self._at(name), True)
        if found:
            kinds = Counter(kind.value for kind in found.values())
            log.info("leftovers were removed", folder=self.uri, files=dict(kinds))

    def note_progress(self, left: Progress, ssps: Iterable[str]) -> None:
        """Keep how far the lane is in event time as it ends, and what it read, for those that may go on from it."""
        self._tree.write(_PROGRESS, json.dumps({"progress": left.to_builtins(), "ssps": sorted(ssps)}))

    def left(self) -> tuple[Progress, list[str]]:
        """How far the lane was in event time when it ended last, and the SSPs that it read.

        Raises:
            StateError: it isn't there.
        """
        if not self.exists(_PROGRESS):
            raise StateError(f"{self.uri} doesn't tell how far its lane was in event time", "restore the storage root")
        told = self._document(_PROGRESS)
        return progress.from_builtins(told["progress"]), told["ssps"]

    def plan(self, entry: Entry) -> int:
        """Write the next batch's entry; running the query ``once``, or letting one go that is held, runs that batch.

        Raises:
            StateError: a batch is pending; finish it first.
        """
        if self.pending:
            raise StateError(
                f"{self.uri} has a pending batch {self.planned()}: another one can't be planned",
                "run the lane's query once, which finishes the pending batch",
            )
        number = self.planned() + 1
        self._tree.write(f"offsets/{number}", offset_log.format(entry), new=True)
        return number

    def sources(self, batch: int) -> dict[str, int]:
        """The number of each stream's source in what was planned for a batch."""
        return {self._streams.get(name, name): number for name, number in self.entry(batch).streams().items()}

    def plan_again(self, entry: Entry) -> None:
        """Write another entry for the pending batch, of which nothing was published.

        Raises:
            StateError: no batch is pending.
        """
        if not self.pending:
            raise StateError(f"{self.uri} has no pending batch", "")
        self._tree.write(f"offsets/{self.planned()}", offset_log.format(entry))

    def clone(
        self,
        target: str,
        keeping: Mapping[str, Iterable[int]] | None = None,
        adding: Mapping[str, Mapping[int, int]] | None = None,
        come: Iterable[Come] = (),
    ) -> Folder:
        """A copy under another query id; it begins with a standby of the folder's, if there is one. Raises
        ConflictError if the target is there already.

        ``keeping``: only these partitions of each stream; None: all. ``adding``: partitions that weren't read before,
        each with the offset to begin at. ``come``: streams that weren't read before.
        """
        with self._copied(target, _COPY_ORDER, self.standbys()) as copy:
            if keeping is not None:
                copy.keep(keeping)
            for stream in come:
                copy.let_come(stream)
            copy.widen(adding or {})
        return copy

    def bare(self, target: str) -> Folder:
        """As :meth:`clone`, but of the state only its schemas."""
        names = [name for name in (*_COPY_ORDER, _PROGRESS) if name != _STATE]
        with self._copied(target, [*names, *self._schemas()]) as copy:
            return copy

    def standby(self, number: int) -> Folder:
        """The place of a standby: a copy of the folder that is kept up to date while its lane runs, beside it. It only
        saves time: it may be gone at any time, or be old."""
        return Folder(self._spark, f"{self._beside}{number}", self._streams)

    def standbys(self) -> list[Folder]:
        """The standbys that there are, the newest first."""
        found = self._fs.globStatus(self._tree.path_of(f"{self._beside}*"))
        numbers = [str(each.getPath().getName()).rpartition("-")[2] for each in found or ()]
        there = [self.standby(int(number)) for number in numbers if number.isdecimal()]
        return sorted(there, key=lambda each: -each.committed()) if len(there) > 1 else there

    @property
    def _beside(self) -> str:
        """How the names of its standbys begin."""
        lane, _, epoch = self.uri.rpartition("/")
        return f"{lane}/{_STANDBY}-{epoch}-"

    def refresh(self, standby: Folder) -> int:
        """Bring a standby of the folder up to date, whose lane may run meanwhile; gives the last batch that it has."""
        filesystem.update(self._tree, standby._tree, _COPY_ORDER, lives=True)
        return standby.committed()

    @contextmanager
    def _copied(self, target: str, names: Iterable[str], standbys: Iterable[Folder] = ()) -> Iterator[Folder]:
        copy = Folder(self._spark, target, self._streams)
        if copy._tree.local is None:
            copy.lock()  # others may be about to make it, too
        if copy.exists():
            raise ConflictError(f"{target} exists already", "a lane's folder is made once; choose a higher epoch")
        begun, names = time.monotonic(), [*names]
        warm = any(standby._becomes(copy) for standby in standbys)
        copy.make()
        try:
            copied = self._fill(copy, names, warm=warm)
            seconds = round(time.monotonic() - begun, 2)
            log.info("a folder was copied", folder=self.uri, to=target, files=copied, seconds=seconds, warm=warm)
            copy._relocate()
            copy._note_id()
            yield copy
        except Exception:
            copy.remove()  # whoever tries again makes it anew
            raise

    def _becomes(self, copy: Folder) -> bool:
        """Whether it has become another folder."""
        try:
            return self._tree.move(copy._tree)
        except Exception as error:
            log.warning("a standby is of no use", folder=self.uri, error=str(error))
            copy.remove()
            return False

    def _fill(self, copy: Folder, names: Sequence[str], *, warm: bool) -> int:
        try:
            if warm:
                crash_points.reach(crash_points.ADOPTED, self._path.getParent().getName(), self.committed())
            return filesystem.update(self._tree, copy._tree, names, lives=False)
        except Exception as error:
            if not warm:
                raise
            log.warning("a standby is of no use, and all is copied", folder=self.uri, error=str(error))
            copy.remove()
            copy.make()
            return self._fill(copy, names, warm=False)

    def _schemas(self) -> list[str]:
        """The folders that say how state is made."""
        found = (self._found(f"{_STATE}/{each}") for each in checkpoint_layout.SCHEMAS)
        return [*itertools.chain.from_iterable(found)]

    def _found(self, pattern: str) -> list[str]:
        """What there is of a pattern, by names in the folder."""
        begin = f"{self._fs.makeQualified(self._path).toString()}/"
        found = self._fs.globStatus(self._at(pattern))
        return [str(each.getPath().toString()).removeprefix(begin) for each in found or ()]

    def _relocate(self) -> None:
        """Let what Spark keeps of a ``process`` name the schemas in this folder, not those where it was copied from:
        it holds whole paths, and that folder will go."""
        whole = self._fs.makeQualified(self._at(_STATE)).toString()
        for name in self._found(f"{_STATE}/{checkpoint_layout.OPERATORS}"):
            self._tree.write(name, checkpoint_layout.relocated(self._tree.read(name), whole))

    def keep(self, partitions: Mapping[str, Iterable[int]]) -> None:
        """Drop all other partitions from every entry of the offset log."""
        kept = {stream: set(numbers) for stream, numbers in partitions.items()}
        for batch in self._tree.numbers("offsets"):
            self._tree.write(f"offsets/{batch}", offset_log.format(self.entry(batch).keeping(kept)))

    def rewind(self, positions: Mapping[str, Mapping[int, int]]) -> None:
        """Let the next batch begin at these positions, stream → partition → offset: of a copy, before it runs.

        The last batch, which was another lane's, then seems to have ended there.
        """
        last = self.planned()
        entry = self.entry(last)
        for stream, number in self.sources(last).items():
            entry = entry.with_positions(number, {**entry.positions(number), **positions.get(stream, {})})
        self._tree.write(f"offsets/{last}", offset_log.format(entry))

    def let_come(self, stream: Come) -> None:
        """Let the next batch begin to read one more stream; one that it has already is left as it is."""
        last = self.planned()
        if last < 0 or stream.name in self.sources(last):
            return
        number = self.sources(last)[stream.after] + 1
        # The other entries say where batches began whose records nobody reads again: Spark only counts their sources.
        for batch in self._tree.numbers("offsets"):
            entry = self.entry(batch).with_source(number, stream.offset if batch == last else None)
            self._tree.write(f"offsets/{batch}", offset_log.format(entry))
        noted = {**self.stream_ids(), stream.name: stream.id}
        self._tree.write(_STREAMS, json.dumps(dict(sorted(noted.items()))))

    def widen(self, partitions: Mapping[str, Mapping[int, int]]) -> None:
        """Let the next batch begin to read more partitions: stream → partition → offset. No batch may be pending."""
        last = self.planned()
        if last >= 0 and partitions:
            self._tree.write(f"offsets/{last}", offset_log.format(self._widened(self.entry(last), partitions)))

    def _widened(self, entry: Entry, partitions: Mapping[str, Mapping[int, int]]) -> Entry:
        for name, number in entry.streams().items():
            added = partitions.get(self._streams.get(name, name), {})
            entry = entry.with_positions(number, {**added, **entry.positions(number)})
        return entry

    def lock(self, unless: Callable[[], bool] = lambda: False) -> None:
        """Take the folder for this process: a local one by an OS lock, for as long as this JVM lives, and any other one
        by a claim, until it is released. Idempotent.

        A killed driver's JVM may live on for a moment: it holds the lock until nothing of it can write any more.

        Args:
            unless: whether to wait no longer for an owner of which it isn't known whether it lives.

        Raises:
            ConflictError: another process has it; FencedError, if that is sure to go on.
        """
        if self._tree.local is None:
            claims.take(self._spark, self.uri, unless)
            return
        path = str(self._tree.local)
        if path in _locked:
            return
        holder = hadoop_files.lock(self._spark, f"{path}.lock")
        if holder is None:
            raise ConflictError(f"another process runs on {path}", "stop it, or wait until it has ended")
        _locked[path] = holder

    def check_owner(self) -> None:
        """See that the folder is still this process's. A local one stays so.

        Raises:
            FencedError: another process has taken it.
        """
        if self._tree.local is None:
            claims.check(self._spark, self.uri)

    def release(self) -> None:
        """Let another process take it, unless it is local: nothing here writes to it any more."""
        if self._tree.local is None:
            claims.release(self._spark, self.uri)

    def _at(self, name: str) -> Any:
        return self._tree.at(name)
