"""What every system provides: access to its streams, a lane's output to them, and what sessions and users need.

Code outside ``anabranch.systems`` never depends on a system's name.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from anabranch.errors import UsageError
from anabranch.model.lane import Lane
from anabranch.systems.appender import Appender, PartlyWrittenError
from anabranch.systems.archive import Archive
from anabranch.systems.findings import JavaClasses, OpenTransaction, StreamFault
from anabranch.systems.output import Publisher
from anabranch.systems.readers import Readers
from anabranch.systems.retention import Retention

if TYPE_CHECKING:
    from anabranch.config import Settings  # slow to import, and not needed in the process of a lane's clock

__all__ = ["Appender", "Folder", "Offsets", "PartlyWrittenError", "Range", "Records", "SessionNeeds", "System"]

Offsets = npt.NDArray[np.int64]

Records = tuple[Offsets, pa.RecordBatch]
"""The ascending offsets of some records of one partition, and the records in the columns of ``RECORD_SCHEMA``."""

Range = tuple[int, int]
"""The first offset of a range, and one past its last offset."""


@dataclass(frozen=True)
class SessionNeeds:
    """What a Spark session needs when it starts.

    Attributes:
        conf: Spark's settings. Lists of jars and packages are merged with those of other systems and formats.
        origin: text for messages that says where the jars or packages come from.
        summary: text for messages that says what the packages are.
        cure: what to do if no Maven repository has the packages.
        jars: the name of a set in :data:`anabranch.jars.pinned.SETS`. Once the set's jars are fetched, they are used,
            or replace the packages. Empty if there is no such set.
    """

    conf: Mapping[str, str] = field(default_factory=dict)
    origin: str = ""
    summary: str = ""
    cure: str = ""
    jars: str = ""


@dataclass(frozen=True)
class Folder:
    """A folder that every process of a job needs. ``label`` is the folder's kind, as messages name it. ``cure`` says
    what to do if Spark's executors have no access to the folder.
    """

    label: str
    path: Path
    cure: str


class System(Protocol):
    """Stores named, partitioned, ordered logs. Your own system must inherit from this class. All methods that aren't
    abstract have defaults.

    What a method returns must be up to date: other programs can create and change streams, too. An abstract method that
    gets a stream's name raises NotFoundError if there is no such stream, unless its docstring says otherwise. A system
    object must be thread-safe and picklable (Python workers get it), and must not connect before it is used.
    """

    spark: ClassVar[str] = "anabranch.systems.reading.spark"
    """The module that is the system's :class:`anabranch.systems.reading.spark.SparkSide`. No other module of the system
    may import PySpark. The default module can read any system, through ``id``, ``ends`` and ``read``.
    """

    stream_settings: ClassVar[tuple[str, ...]] = ()
    """Which of ``delivery``, ``on_data_loss`` and ``topic`` a section ``[streams.NAME]`` can contain."""

    real_time: ClassVar[bool] = False
    """Whether Spark can read the system in real-time mode, in which records arrive one by one."""

    gapless: ClassVar[bool] = True
    """Whether every offset belongs to a record. If not, don't count records by subtracting offsets."""

    foreign_producers: ClassVar[bool] = False
    """Whether other programs can write to the system's streams, and can assign keys to other partitions than anabranch
    does."""

    transactional: ClassVar[bool] = False
    """Whether other programs can write to the system's streams in transactions. While a transaction is open, readers
    can't read later records."""

    connector: ClassVar[bool] = False
    """Whether Spark needs jars to read and write the system. :meth:`session_needs` names them."""

    begins_in_folder: ClassVar[bool] = False
    """Whether start offsets in the checkpoint folder of Spark's source override the source's options. If so, a query
    can be analyzed before its start offsets are known.
    """

    remote: ClassVar[bool] = True
    """Whether the system is reached over a network. If so, a lane doesn't look up the ends of its output streams at
    every batch."""

    retains: ClassVar[bool] = False
    """Whether anabranch decides how long streams keep their records. If so, the system overrides :meth:`retain`."""

    error_cures: ClassVar[Sequence[tuple[str, str]]] = ()
    """Cures for errors of the system's clients, in Python or Java: pairs of a regular expression for ``kind: message``
    and a cure."""

    name: str
    """The system's name in SSPs and in settings."""

    @classmethod
    @abstractmethod
    def opened(cls, name: str, settings: Settings, job: str) -> Self:
        """The system that ``settings.systems.sections[name]`` configures. ``job`` is '' outside a job. Raises
        ConfigError if a setting isn't allowed.
        """
        ...

    def dataset(self, stream: str) -> tuple[str, str]:
        """The namespace and the name of a stream for other programs (https://openlineage.io/docs/spec/naming/). The
        stream needn't exist.
        """
        return self.name, stream

    # Streams and their offsets

    @abstractmethod
    def streams(self) -> list[str]:
        """The names of all streams, sorted."""
        ...

    @abstractmethod
    def counts(self) -> dict[str, int]:
        """The partition counts of all streams, by name, except those of :meth:`undescribed`."""
        ...

    def undescribed(self) -> Sequence[str]:
        """The streams that exist but can't be described: :meth:`partitions` raises an error."""
        return ()

    @abstractmethod
    def partitions(self, stream: str) -> int:
        """How many partitions a stream has."""
        ...

    @abstractmethod
    def id(self, stream: str) -> str:
        """An id that no later stream of the same name has."""
        ...

    @abstractmethod
    def create(self, stream: str, partitions: int, internal: bool = False) -> None:
        """Create a stream, unless it exists with that partition count. ``internal`` says whether it is intermediate.

        Raises:
            ConflictError: the stream exists with another partition count.
        """
        ...

    @abstractmethod
    def expand(self, stream: str, partitions: int) -> None:
        """Raise a stream's partition count to a multiple of the current count. The count can't be lowered again.

        Raises:
            UsageError: ``partitions`` isn't a multiple of the current count.
        """
        ...

    @abstractmethod
    def starts(self, stream: str) -> dict[int, int]:
        """The offset of the oldest existing record in each partition; the end offset of a partition without records."""
        ...

    @abstractmethod
    def ends(self, stream: str, partitions: Iterable[int] | None = None) -> dict[int, int]:
        """The end offset of each partition in ``partitions`` (by default, all of them): one past the last record that a
        reader may see.

        Offsets may have gaps (in Kafka, transactions take up offsets): don't count records by subtracting offsets.
        """
        ...

    @abstractmethod
    def high_watermarks(self, stream: str) -> dict[int, int]:
        """The end of each partition, including the records of open transactions, which readers can't see yet and may
        never see."""
        ...

    def open_transaction(self, stream: str, partition: int, java: JavaClasses) -> OpenTransaction | None:
        """The transaction that keeps readers from the partition's records between :meth:`ends` and
        :meth:`high_watermarks`; None if there is no such transaction, or if the system has no transactions. Systems
        whose Python client can't determine the transaction use ``java``.
        """
        return None

    def known_ends(self, stream: str) -> dict[int, int]:
        """Like :meth:`high_watermarks`, for repeated calls: a system may start the lookup from its previous result."""
        return self.high_watermarks(stream)

    @abstractmethod
    def offset_at(self, stream: str, unix_ms: int) -> dict[int, int]:
        """For each partition, the offset of the first record with the timestamp ``unix_ms`` or a later one; the end
        offset if there is no such record.
        """
        ...

    @abstractmethod
    def read(self, stream: str, partition: int, ranges: Sequence[Range]) -> Iterator[Records]:
        """All records whose offsets are in ``ranges``, in order. The ranges are ascending and don't overlap.

        Raises:
            LogError: part of a range doesn't exist, for example because it was deleted.
        """
        ...

    @abstractmethod
    def appender(self, stream: str) -> Appender:
        """An appender that adds records to a stream."""
        ...

    @abstractmethod
    def controls(self, stream: str, partition: int, cursor: int, position: int) -> tuple[list[dict[str, Any]], int]:
        """The next control records of an intermediate stream that apply to a reader of a partition, in order, and the
        cursor for the next call. A control record applies once the reader has read all records before it.

        Args:
            cursor: the cursor that the previous call returned; -1 in the first call.
            position: the reader's position in the partition.
        """
        ...

    def offset(self, stream: str, id: str, positions: Mapping[int, int]) -> dict[str, Any]:
        """Positions in the form in which the system's Spark source writes them to the offset log.
        :class:`anabranch.container.checkpoint.offset_log.Entry` must be able to read this form.
        """
        return {"stream": stream, "id": id, "positions": {str(p): at for p, at in sorted(positions.items())}}

    def racks(self, stream: str) -> Mapping[int, tuple[str | None, ...]]:
        """The racks of each partition's replicas, with the leader's rack first. None stands for a broker without a
        rack. Empty if the system has no racks.
        """
        return {}

    def commit_positions(self, group: str, positions: Mapping[str, Mapping[int, int]]) -> None:
        """Report a consumer group's positions, by stream and partition, to tools that show lag. anabranch itself
        doesn't read them.
        """
        return

    def purge(self, stream: str, before: Mapping[int, int]) -> None:
        """Delete old records of an intermediate stream: in each partition in ``before``, those before the given offset.
        No lane will read these records again, so a system may delete some of them later.
        """
        return

    def retain(self, stream: str, retention: Retention | None, *, past_readers: bool = False) -> int:
        """Set a stream's retention, if one is given, and delete the records that the stream's retention doesn't keep,
        except those that jobs still have to read. Returns the number of deleted records.

        Args:
            stream: the stream's name.
            retention: the stream's retention from now on; None to keep the current one.
            past_readers: whether to delete even the records that jobs still have to read.

        Raises:
            UsageError: the system doesn't let anabranch decide about retention.
        """
        raise self.no_retention(stream)

    def no_retention(self, stream: str) -> UsageError:
        """The error to raise if a retention was given for a stream, but the system doesn't have :attr:`retains` set."""
        return UsageError(
            f"{stream} is in {self.name}, which decides itself how long it keeps records",
            "use its own tools, such as kafka-configs with retention.ms and retention.bytes",
        )

    def retention(self, stream: str) -> Retention | None:
        """How long a stream keeps its records; None if the system doesn't let anabranch decide this."""
        return None

    def readers(self) -> Readers | None:
        """The jobs that read the system's streams; None if unknown. :meth:`retain` keeps the records that these jobs
        still have to read, unless ``past_readers`` is set.
        """
        return None

    # A lane's output. If a lane writes streams of several systems, each method is called for each of these systems.

    @abstractmethod
    def publisher(self, lane: Lane, epoch: int) -> Publisher:
        """A publisher that writes exactly once, for the process that has the lane under ``epoch``."""
        ...

    @abstractmethod
    def fence(self, lane: Lane, epoch: int, new: bool | None) -> None:
        """Make a lane's outputs refuse every epoch lower than ``epoch``: once this returns, no process with a lower
        epoch can publish for the lane. Must be idempotent, and must work without Spark: the coordinator calls this, and
        calls it again after an error.

        Args:
            new: whether no batch of the lane was ever planned; None if that is unknown.

        Raises:
            ConflictError, FencedError: a process with a higher epoch has the lane.
            StateError: the lane is new but an output has one of its batches, or the lane isn't new and a marker is
                missing. (Not every system checks this.)
        """
        ...

    def recover(self, lane: Lane, epoch: int, new: bool | None) -> None:
        """End what an earlier process of the lane left open at the outputs. The process that has the lane under
        ``epoch`` calls this before it calls :meth:`published`.
        """
        return

    def withdraw(self, lane: Lane, epoch: int, new: bool | None) -> int:
        """Withdraw a lane's right to write, even from the process that has the lane under ``epoch``, until the lane
        takes over its outputs again. By default, does nothing. Called only after the lane's query has ended in this
        process. For ``new``, see :meth:`fence`.

        Returns the lane's last batch that an output contains after the call, at least in part. Returns -1 if there is
        no such batch, or if the system doesn't determine it. (The caller also calls :meth:`published`.)
        """
        return -1

    @abstractmethod
    def published(self, lane: Lane) -> int:
        """The last batch of a lane that is in any exactly-once output in this system, at least in part; -1 if
        none."""
        ...

    def seen(self, lane: Lane) -> int:
        """Like :meth:`published`, but for a running lane, and only for outputs whose writers make rows visible before
        the driver publishes the batch; -1 if none. Later batches can become visible during the call.
        """
        return -1

    @abstractmethod
    def writers(self, job: str, streams: Sequence[str]) -> dict[str, str]:
        """The lanes of a job that the system has recorded as writers of any of ``streams``. The keys are lane ids; the
        values say, for messages, where the lanes are recorded. Streams that don't exist are skipped. A system that
        doesn't record a lane's streams returns all recorded lanes of the job.
        """
        ...

    # What else a job and its user need

    def session_needs(self) -> SessionNeeds:
        """What a session needs to read and write the system."""
        return SessionNeeds()

    def faults(self, stream: str) -> Sequence[StreamFault]:
        """The problems with a stream's files, for ``anabranch check``. Empty if another program stores and checks the
        streams.
        """
        return ()

    def archive(self) -> Archive | None:
        """The archive that makes the system's streams part of a job's backup; None if they aren't part of backups."""
        return None

    def folders(self) -> Sequence[Folder]:
        """The folders that the system needs. They are created when they are first needed."""
        return ()

    def checks(self) -> Mapping[str, Callable[[], str]]:
        """The system's checks for ``anabranch doctor``, by name. Each returns its finding, or raises AnabranchError."""
        return {}
