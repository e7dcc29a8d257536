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
"""Some records of one partition: their ascending offsets, and their data, with the columns of ``RECORD_SCHEMA``."""

Range = tuple[int, int]
"""The first offset of a range, and one past its last offset."""


@dataclass(frozen=True)
class SessionNeeds:
    """What a Spark session needs when it starts.

    Attributes:
        conf: Spark's settings. Lists of jars and packages are merged with those of other systems and formats.
        origin: where the jars or packages come from, as text for messages.
        summary: what the packages are, as text for messages.
        cure: what to do if no Maven repository has the packages.
        jars: the name of a set of jars in :data:`anabranch.jars.pinned.SETS`; empty if there is no such set. Once the
            set's jars are fetched, the session uses them. If ``conf`` names packages, the jars replace the packages.
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

    What a method returns must be up to date, because other programs can also create and change streams. An abstract
    method that gets a stream's name raises NotFoundError if there is no such stream, unless the method's docstring says
    otherwise. A system object must be thread-safe. It must be picklable, because Python workers get the object. It must
    not connect before it is used.
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
    """Whether every offset belongs to a record. If False, subtracting offsets doesn't give the number of records."""

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
    """Whether the system is reached over a network. If True, a lane doesn't look up the ends of its output streams in
    every batch."""

    retains: ClassVar[bool] = False
    """Whether anabranch decides how long streams keep their records. If so, the system overrides :meth:`retain`."""

    error_cures: ClassVar[Sequence[tuple[str, str]]] = ()
    """Cures for errors of the system's clients, in Python or Java. Each item is a pair of a regular expression and a
    cure. The expression is applied to the error as ``kind: message``."""

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
        """The namespace and the name by which other programs know a stream; see
        https://openlineage.io/docs/spec/naming/. The stream needn't exist.
        """
        return self.name, stream

    # Streams and their offsets

    @abstractmethod
    def streams(self) -> list[str]:
        """The names of all streams, sorted."""
        ...

    @abstractmethod
    def counts(self) -> dict[str, int]:
        """The partition counts of all streams, by name. Streams that :meth:`undescribed` returns are left out."""
        ...

    def undescribed(self) -> Sequence[str]:
        """The streams that exist, but for which :meth:`partitions` raises an error because they can't be described."""
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
        """Create a stream. If the stream already exists with the same partition count, do nothing. ``internal`` says
        whether the stream is intermediate.

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
        """For each partition, the offset of the oldest existing record. For a partition without records, the end
        offset.
        """
        ...

    @abstractmethod
    def ends(self, stream: str, partitions: Iterable[int] | None = None) -> dict[int, int]:
        """The end offset of each partition in ``partitions``, which is one more than the offset of the last record that
        a reader can see. If ``partitions`` is None, the end offsets of all partitions.

        Offsets may have gaps: in Kafka, for example, transactions take up offsets. So subtracting offsets doesn't give
        the number of records.
        """
        ...

    @abstractmethod
    def high_watermarks(self, stream: str) -> dict[int, int]:
        """The end of each partition, including the records of open transactions. Readers can't see these records yet,
        and may never see them."""
        ...

    def open_transaction(self, stream: str, partition: int, java: JavaClasses) -> OpenTransaction | None:
        """The transaction that prevents readers from reading the partition's records between :meth:`ends` and
        :meth:`high_watermarks`. The result is None if there is no such transaction, or if the system has no
        transactions. If the system's Python client can't determine the transaction, the system uses ``java``.
        """
        return None

    def known_ends(self, stream: str) -> dict[int, int]:
        """Like :meth:`high_watermarks`, for repeated calls: a system may start a lookup from the previous result."""
        return self.high_watermarks(stream)

    @abstractmethod
    def offset_at(self, stream: str, unix_us: int) -> dict[int, int]:
        """For each partition, the offset of the first record with the timestamp ``unix_us``, in microseconds since
        1970, or a later one. For a partition without such a record, the end offset.
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
        """Two items. The first is a list, in order, of the next control records that apply to a reader of a partition
        of an intermediate stream. The second is the cursor for the next call. A control record applies once the reader
        has read all records before it.

        Args:
            cursor: the cursor that the previous call returned; -1 in the first call.
            position: the reader's position in the partition.
        """
        ...

    def offset(self, stream: str, id: str, positions: Mapping[int, int]) -> dict[str, Any]:
        """The positions, converted to the form that the system's Spark source writes to the offset log.
        :class:`anabranch.container.checkpoint.offset_log.Entry` must be able to read this form.
        """
        return {"stream": stream, "id": id, "positions": {str(p): at for p, at in sorted(positions.items())}}

    def racks(self, stream: str) -> Mapping[int, tuple[str | None, ...]]:
        """For each partition, the racks of the partition's replicas, with the leader's rack first. None stands for a
        broker without a rack. If the system has no racks, the result is empty.
        """
        return {}

    def commit_positions(self, group: str, positions: Mapping[str, Mapping[int, int]]) -> None:
        """Make a consumer group's positions, by stream and partition, visible to tools that show lag. anabranch itself
        doesn't read these positions.
        """
        return

    def purge(self, stream: str, before: Mapping[int, int]) -> None:
        """Delete old records of an intermediate stream. ``before`` maps partitions to offsets. In each of these
        partitions, the records before the partition's offset are deleted. No lane will read these records again, so
        the system needn't delete all of them at once.
        """
        return

    def retain(self, stream: str, retention: Retention | None, *, past_readers: bool = False) -> int:
        """Delete the records that a stream's retention doesn't keep, except records that jobs still have to read. If
        ``retention`` is given, first set the stream's retention. Returns the number of deleted records.

        Args:
            stream: the stream's name.
            retention: the stream's retention from now on; None to keep the current one.
            past_readers: whether to delete even the records that jobs still have to read.

        Raises:
            UsageError: the system doesn't let anabranch decide about retention.
        """
        raise self.no_retention(stream)

    def no_retention(self, stream: str) -> UsageError:
        """The error to raise if a retention was given for a stream, but the system's :attr:`retains` is False."""
        return UsageError(
            f"{stream} is in {self.name}, which decides itself how long it keeps records",
            "use its own tools, such as kafka-configs with retention.ms and retention.bytes",
        )

    def retention(self, stream: str) -> Retention | None:
        """The retention that is set for a stream; None if the system doesn't let anabranch decide about retention."""
        return None

    def readers(self) -> Readers | None:
        """The jobs that read the system's streams; None if they aren't known. :meth:`retain` keeps the records that
        these jobs still have to read, unless ``past_readers`` is true.
        """
        return None

    # A lane's output. If a lane writes streams of several systems, each method is called for each of these systems.

    @abstractmethod
    def publisher(self, lane: Lane, epoch: int) -> Publisher:
        """A publisher that writes exactly once, for the process that has the lane under ``epoch``."""
        ...

    @abstractmethod
    def fence(self, lane: Lane, epoch: int, new: bool | None) -> None:
        """Make a lane's outputs refuse every epoch lower than ``epoch``. Once this method has returned, no process with
        a lower epoch can publish for the lane. The coordinator calls this method, and calls it again after an error. So
        the method must be idempotent, and must work without Spark.

        Args:
            new: whether no batch of the lane was ever planned; None if this isn't known.

        Raises:
            ConflictError, FencedError: a process with a higher epoch has the lane.
            StateError: the lane is new, but an output has one of the lane's batches; or the lane isn't new, but a
                marker is missing. (Not every system checks this.)
        """
        ...

    def recover(self, lane: Lane, epoch: int, new: bool | None) -> None:
        """End what an earlier process of the lane has left unfinished in the outputs, such as an open transaction. The
        process that has the lane under ``epoch`` calls this method before it calls :meth:`published`.
        """
        return

    def withdraw(self, lane: Lane, epoch: int, new: bool | None) -> int:
        """Withdraw a lane's right to write until the lane takes over its outputs again. Even the process that has the
        lane under ``epoch`` loses this right. By default, this method does nothing. It is called only after the lane's
        query has ended in this process. For ``new``, see :meth:`fence`.

        Returns the number of the lane's last batch that an output contains after the call, completely or partly. The
        result is -1 if there is no such batch, or if the system doesn't determine the batch. (The caller also calls
        :meth:`published`.)
        """
        return -1

    @abstractmethod
    def published(self, lane: Lane) -> int:
        """The highest number of a batch of the lane that is in any of the system's exactly-once outputs, completely or
        partly; -1 if there is no such batch."""
        ...

    def seen(self, lane: Lane) -> int:
        """The same number as :meth:`published`, but for a running lane. Only outputs whose writers make rows visible
        before the driver publishes the batch are considered. If they contain no batch, the result is -1. Later batches
        can become visible during the call.
        """
        return -1

    @abstractmethod
    def writers(self, job: str, streams: Sequence[str]) -> dict[str, str]:
        """The lanes of a job that the system has recorded as writers of any of ``streams``. The keys are lane ids. Each
        value describes, for messages, where the lane is recorded. Streams that don't exist are skipped. If a
        system doesn't record which streams a lane writes, the result has all recorded lanes of the job.
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
        """The archive through which the system's streams are backed up with a job; None if backups leave them out."""
        return None

    def folders(self) -> Sequence[Folder]:
        """The folders that the system needs. They are created when they are first needed."""
        return ()

    def checks(self) -> Mapping[str, Callable[[], str]]:
        """The system's checks for ``anabranch doctor``, by name. Each check returns a finding, or raises
        AnabranchError.
        """
        return {}
