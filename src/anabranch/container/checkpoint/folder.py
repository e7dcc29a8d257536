"""Reads and edits a lane's checkpoint folder, on any kind of storage root."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from pyspark.sql import SparkSession

from anabranch import logs
from anabranch.container.checkpoint import claims, leftovers, offset_log
from anabranch.container.checkpoint.filesystem import Tree
from anabranch.container.checkpoint.leftovers import Kind
from anabranch.container.checkpoint.offset_log import Entry
from anabranch.container.checkpoint.soundness import Checkpoint, Resumption
from anabranch.errors import ConflictError, DamagedError, StateError
from anabranch.event_time import progress
from anabranch.event_time.progress import Progress
from anabranch.spark.internals import checkpoint_layout, hadoop_files
from anabranch.spark.query.planned_batch import Batch

METADATA = "metadata"
_BEGIN = "sources/0/0"
_STATE = "state"
STREAMS = "streams.json"
STARTING = "starting.json"
OUTPUTS = "outputs.json"
PROGRESS = "progress.json"
BROKEN = "broken.json"

log = logs.get_logger()

# The folders from which this process has removed leftovers. Queries of this process may have run in them since.
cleared: set[str] = set()

# Lock files by path. If Python kept no reference to a file, the JVM would close the file and so give up the lock.
_locked: dict[str, Any] = {}


class Folder:
    """A lane's checkpoint folder. Edit batches and state in it only while the lane's query is stopped or held."""

    def __init__(self, spark: SparkSession, uri: str, streams: Mapping[str, str] | None = None) -> None:
        """``streams`` maps topics to the names of their streams in the job. A stream whose two names are the same is
        left out.
        """
        checkpoint_layout.SURFACE.insist(spark)
        self.tree = Tree(spark, uri)
        self.uri = self.tree.uri if self.tree.local is None and urlsplit(uri).scheme else uri
        self._spark = spark
        self._streams = streams or {}

    def other(self, uri: str) -> Folder:
        """Another folder with the same streams. It needn't exist."""
        return Folder(self._spark, uri, self._streams)

    def of_others(self, lanes: Mapping[str, int]) -> list[Folder]:
        """The folders of other lanes of the job, each given by the lane's id and the folder's epoch."""
        return [self.other(f"{self.uri.rsplit('/', 2)[0]}/{lane}/{epoch}") for lane, epoch in lanes.items()]

    def make(self) -> None:
        self.tree.fs.mkdirs(self.tree.path)

    def exists(self, name: str = "") -> bool:
        return self.tree.has(name)

    def remove(self) -> None:
        """Delete the folder with everything in it."""
        self.tree.fs.delete(self.tree.path, True)

    def planned(self) -> int:
        """The last batch that was planned, -1 if none."""
        return max(self.tree.numbers("offsets"), default=-1)

    def committed(self) -> int:
        """The last batch that was committed, -1 if none."""
        return max(self.tree.numbers("commits"), default=-1)

    @property
    def pending(self) -> bool:
        """Whether a batch was planned but not committed."""
        return self.planned() > self.committed()

    def entry(self, batch: int) -> Entry:
        """The plan of a batch."""
        return offset_log.parse(self.tree.read(f"offsets/{batch}"), f"{self.uri}/offsets/{batch}", self._streams)

    def planned_entry(self, batch: int) -> Entry:
        """The plan of a batch. Call this only just after Spark has written or read the plan."""
        return offset_log.parse(self.tree.read_entry(f"offsets/{batch}"), f"{self.uri}/offsets/{batch}", self._streams)

    def positions(self) -> dict[str, dict[int, int]]:
        """The positions after the last committed batch, by stream and partition; {} if no batch was committed."""
        last = self.committed()
        if last < 0:
            return {}
        entry = self.entry(last)
        return self._positions(entry)

    def batch(self, number: int) -> Batch:
        """A planned batch, by its number. Its ``begins`` is {} if the plan of the previous batch is missing."""
        return self.batch_of(number, self.entry(number), self.before(number))

    def before(self, number: int) -> Entry | None:
        """The plan of the batch before ``number``, or None."""
        return self.entry(number - 1) if self.exists(f"offsets/{number - 1}") else None

    def batch_of(self, number: int, entry: Entry, before: Entry | None) -> Batch:
        """The planned batch ``number``, given its entry and the entry of the previous batch (None if there is none)."""
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

    def settled(self) -> bool:
        """Whether the last planned batch was committed, and Spark's watermark requires no further batch. True if no
        batch was ever planned."""
        last = self.planned()
        if last < 0:
            return True
        if last > self.committed():
            return False
        return self.next_watermark(last) <= self.entry(last).watermark

    def next_watermark(self, batch: int) -> int:
        """Spark's watermark, in Unix ms, for the batch after the committed batch ``batch``."""
        return int(self.commit(batch)[1].get("nextBatchWatermarkMs", 0))

    def commit(self, batch: int) -> tuple[str, dict[str, Any], list[str]]:
        """A batch's commit file: the version, Spark's data about the batch, and further lines."""
        name = f"commits/{batch}"
        version, *rest = self.tree.read(name).split("\n")
        return version, self._parsed(name, rest[0] if rest else ""), rest[1:]

    def _parsed(self, name: str, text: str) -> dict[str, Any]:
        """The JSON object in a file. Raises DamagedError if there is none."""
        try:
            return dict(json.loads(text))
        except (ValueError, TypeError) as error:
            raise DamagedError(
                f"{self.uri}/{name} is damaged: {error if text else 'it is empty'}",
                f"restore that file, or the folder {self.uri}, from a backup; see `anabranch check JOB`",
            ) from error

    def _document(self, name: str) -> dict[str, Any]:
        return self._parsed(name, self.tree.read(name))

    def _positions(self, entry: Entry) -> dict[str, dict[int, int]]:
        return {stream: entry.positions(number) for stream, number in entry.streams().items()}

    def planned_positions(self, batch: int) -> dict[str, dict[int, int]]:
        """The offset at which a batch ends in each partition, by stream and partition."""
        return self._positions(self.entry(batch))

    def stream_ids(self) -> dict[str, str]:
        """The ids that the streams had when the lane began to read them; {} if no ids are stored. A stream that is
        deleted and created again gets a new id.
        """
        return self._document(STREAMS) if self.exists(STREAMS) else {}

    def note_streams(self, ids: Mapping[str, str]) -> None:
        """Store the ids of the streams that the lane reads, unless ids are stored already."""
        if not self.exists(STREAMS):
            self.tree.write(STREAMS, json.dumps(dict(sorted(ids.items()))), new=True)

    def note_stream(self, name: str, stream_id: str) -> None:
        """Store the id of a stream that the lane reads from now on."""
        noted = {**self.stream_ids(), name: stream_id}
        self.tree.write(STREAMS, json.dumps(dict(sorted(noted.items()))))

    def note_outputs(self, noted: Mapping[str, Any]) -> None:
        """Store where the lane's outputs end; see :class:`Outputs`."""
        self.tree.write(OUTPUTS, json.dumps(noted), durable=False)

    def outputs(self) -> dict[str, Any]:
        """Where the lane's outputs ended; {} if that isn't known, for example because a power cut has left the file
        empty.
        """
        try:
            return self._document(OUTPUTS) if self.exists(OUTPUTS) else {}
        except DamagedError as error:
            log.warning("where the outputs of a lane ended isn't known", folder=self.uri, error=error.what)
            return {}

    def note_starting(self, offsets: Mapping[str, int]) -> dict[str, int]:
        """Store the lane's start offsets, by whole SSP in text form, unless offsets are stored already or a batch is
        planned. If the offsets weren't stored, a lane that starts at its inputs' end offsets would start elsewhere
        after a restart. Returns the stored offsets; {} if there are none.
        """
        if not self.exists(STARTING):
            if self.planned() >= 0:
                return {}
            self.tree.write(STARTING, json.dumps(dict(sorted(offsets.items()))), new=True)
        return self._document(STARTING)

    def starting(self) -> dict[str, int]:
        """The stored start offsets, by whole SSP in text form; {} if none are stored."""
        return self._document(STARTING) if self.exists(STARTING) else {}

    def change_starting(self, offsets: Mapping[str, int]) -> None:
        """Replace stored start offsets, if any are stored."""
        if self.exists(STARTING):
            noted = {ssp: offsets.get(ssp, offset) for ssp, offset in self.starting().items()}
            self.tree.write(STARTING, json.dumps(dict(sorted(noted.items()))))

    def begin_at(self, offset: Mapping[str, Any]) -> None:
        """Make the query's only source begin at ``offset``, whatever the source's options say. Does nothing if the
        folder already says where the source begins. This works for sources that read their first offset from the
        folder, such as Spark's Kafka connector.
        """
        if not self.exists(_BEGIN):
            self.tree.fs.mkdirs(self.tree.at(_BEGIN.rpartition("/")[0]))
            self.tree.write(_BEGIN, f"\0v1\n{json.dumps(offset)}", new=True)

    def note_broken(self, batch: int) -> None:
        """Record that a batch was broken off. The batch may have left state in the folder, and its threads may still
        write more.
        """
        self.tree.write(BROKEN, json.dumps({"batch": batch}))

    def take_back(self) -> None:
        """Forget the pending batch. Call this only if no part of the batch was published, and no part can be published
        any more. The batch's state may stay in the folder; :meth:`clear_broken` removes this state from a successor's
        copy.
        """
        if self.pending:
            name = f"offsets/{self.planned()}"
            self.tree.remove(name.replace("/", "/.") + ".crc")
            self.tree.remove(name, durable=True)  # successors continue from the batch before

    def clear_broken(self, former: Folder) -> None:
        """Remove the state of a batch that was broken off in ``former``, the folder from which this one was copied. If
        no batch is planned here, remove all state, and forget where the query began, even if no batch was broken off.
        Call this only if no query has run in the copy.
        """
        if self.planned() < 0:
            self.begin_anew()
        elif former.exists(BROKEN):
            self.clear_leftovers(anew=False)

    def begin_anew(self) -> None:
        """Forget all batches, their state, and where the query began. Call this only if nothing has been published."""
        for name in (*leftovers.OF_BATCHES, "sources"):
            self.tree.fs.delete(self.tree.at(name), True)

    def checkpoint(self, partitions: int, *, thorough: bool = False, least: int = -1) -> Checkpoint:
        """The folder's files, for checking whether the lane can continue from them. For the arguments, see
        :class:`Checkpoint`."""
        return Checkpoint(self.tree.sizes(), self.tree.read_bytes, partitions, thorough, least)

    def resume(self, at: Resumption) -> None:
        """Forget all batches after ``at.batch``. If the batch ``at.batch`` must run again, also forget that it was
        committed. Call this only if no part of the later batches has been published.
        """
        if at.batch < 0:
            self.begin_anew()
            return
        for log_name, last in (("commits", at.batch - at.pending), ("offsets", at.batch)):
            for number in reversed([each for each in self.tree.numbers(log_name) if each > last]):
                self.tree.remove(f"{log_name}/{number}")
                self.tree.remove(f"{log_name}/.{number}.crc")

    def mend_metadata(self) -> None:
        """If the query's id is unreadable, give the query a new id; otherwise, Spark refuses to start the query. Only a
        query that hasn't planned any batch needs no id. Nothing requires the id to stay the same.
        """
        has_file = self.exists(METADATA)
        if not has_file and self.planned() < 0:
            return
        try:
            known = bool(json.loads(self.tree.read(METADATA))["id"]) if has_file else False
        except (ValueError, KeyError, TypeError):
            known = False
        if not known:
            log.warning("the id of a lane's query couldn't be read, so the query gets a new one", folder=self.uri)
            self.note_id()

    def note_id(self) -> None:
        """Give the query a new, unique id."""
        self.tree.write(METADATA, json.dumps({"id": str(uuid.uuid4())}))

    def clear_leftovers(self, *, anew: bool) -> None:
        """Remove what killed processes have left, so Spark can start a query here and run a pending batch from its
        beginning. Call this only if no process runs a query in the folder.

        Args:
            anew: whether the lane has never written anything. If the lane has neither written anything nor planned a
                batch, all state of the lane is removed.
        """
        found = leftovers.classify(self.tree.all_files())
        if not anew:
            found = {name: kind for name, kind in found.items() if kind is not Kind.UNPLANNED}
        # After a query of this process has ended, Spark may still be writing snapshots of its state.
        if self.uri in cleared:
            found = {name: kind for name, kind in found.items() if kind is not Kind.SPARKS or name[:6] != f"{_STATE}/"}
        cleared.add(self.uri)
        for name in found:
            self.tree.remove(name)
        if anew and self.planned() < 0 and self.committed() < 0:
            for name in leftovers.OF_BATCHES:  # even an empty subfolder makes Spark take these folders for non-empty
                self.tree.fs.delete(self.tree.at(name), True)
        if found:
            kinds = Counter(kind.value for kind in found.values())
            log.info("leftovers were removed", folder=self.uri, files=dict(kinds))

    def note_progress(self, left: Progress, ssps: Iterable[str]) -> None:
        """Store what the lane's successors need: the lane's final event time, and the SSPs that the lane read."""
        self.tree.write(PROGRESS, json.dumps({"progress": left.to_builtins(), "ssps": sorted(ssps)}))

    def left(self) -> tuple[Progress, list[str]]:
        """The lane's event time when the lane last ended, and the SSPs that the lane read.

        Raises:
            StateError: the event time isn't stored.
        """
        if not self.exists(PROGRESS):
            raise StateError(f"{self.uri} doesn't tell how far its lane was in event time", "restore the storage root")
        told = self._document(PROGRESS)
        return progress.from_builtins(told["progress"]), told["ssps"]

    def plan(self, entry: Entry) -> int:
        """Write the entry of the next batch, and return the batch's number. The batch runs when the query is started
        with the trigger ``once``, or when the held query is told to run it.

        Raises:
            StateError: a batch is pending; finish it first.
        """
        if self.pending:
            raise StateError(
                f"{self.uri} has a pending batch {self.planned()}: another one can't be planned",
                "run the lane's query once, which finishes the pending batch",
            )
        number = self.planned() + 1
        self.tree.write(f"offsets/{number}", offset_log.format(entry), new=True)
        return number

    def sources(self, batch: int) -> dict[str, int]:
        """For each stream, the index of its source in the plan of a batch."""
        return self.entry(batch).streams()

    def plan_again(self, entry: Entry) -> None:
        """Replace the entry of the pending batch. Call this only if no part of the batch has been published.

        Raises:
            StateError: no batch is pending.
        """
        if not self.pending:
            raise StateError(f"{self.uri} has no pending batch", "")
        self.tree.write(f"offsets/{self.planned()}", offset_log.format(entry))

    def lock(self, unless: Callable[[], bool] = lambda: False) -> None:
        """Take the folder for this process. Idempotent.

        A local folder is held with an OS lock until this JVM ends. (The JVM of a killed driver may live on for a
        moment.) Any other folder is held with a claim until the claim is released or lost.

        Args:
            unless: returns whether to stop waiting for an owner that may or may not be alive.

        Raises:
            ConflictError: another process has the folder, or may have it. The error is a FencedError if the other
                process is certainly alive, or has taken the folder from this process.
        """
        if self.tree.local is None:
            claims.take(self._spark, self.tree.uri, unless)
            return
        path = str(self.tree.local)
        if path in _locked:
            return
        holder = hadoop_files.lock(self._spark, f"{path}.lock")
        if holder is None:
            raise ConflictError(f"another process runs on {path}", "stop it, or wait until it has ended")
        _locked[path] = holder

    def check_owner(self) -> None:
        """Check that this process still owns the folder. A local folder can't be lost, so it isn't checked.

        Raises:
            FencedError: another process has taken the folder.
        """
        if self.tree.local is None:
            claims.check(self._spark, self.tree.uri)

    def release(self) -> None:
        """Let another process take the folder. Call this only after everything in this process has stopped writing to
        it. A local folder, however, stays locked until this JVM ends."""
        if self.tree.local is None:
            claims.release(self._spark, self.tree.uri)
