"""What every system provides: its streams, a lane's output into it, and what sessions and users need.

Nothing outside ``anabranch.systems`` asks which system it has: all differences between systems are described here.
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
from anabranch.systems.archive import Archive
from anabranch.systems.output import Publisher
from anabranch.systems.readers import Readers
from anabranch.systems.retention import Retention

if TYPE_CHECKING:
    from anabranch.config import Settings  # slow to import, and a lane's clock is a process of its own

__all__ = ["Appender", "Folder", "Offsets", "Range", "Records", "SessionNeeds", "StreamFault", "System"]

Offsets = npt.NDArray[np.int64]

Records = tuple[Offsets, pa.RecordBatch]
"""The rising offsets of some records of one partition, and the records in the columns of ``RECORD_SCHEMA``."""

Range = tuple[int, int]
"""The first offset, and the one after the last."""


class Appender(Protocol):
    """Adds records to one stream from outside any job. For one thread."""

    def append(self, batch: pa.RecordBatch) -> int:
        """Add a batch in the columns of ``RECORD_SCHEMA``, each record to the partition given by murmur2 of its key;
        records with null keys go to any partition. The batch is durable when this returns. Returns the number of
        records.
        """
        ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class SessionNeeds:
    """What a Spark session needs when it starts. ``conf``: Spark's settings; those for jars and packages are merged
    with the ones that others need.

    ``jars``: a set of :data:`anabranch.jars.pinned.SETS` that could be used instead of packages, if it were fetched.

    For messages: ``origin``: where these needs come from; ``summary``: what the packages are; ``cure``: what to do if
    no Maven repository has them.
    """

    conf: Mapping[str, str] = field(default_factory=dict)
    origin: str = ""
    summary: str = ""
    cure: str = ""
    jars: str = ""


@dataclass(frozen=True)
class Folder:
    """A folder that every process of a job must see. ``cure``: what to do if one doesn't."""

    label: str
    path: Path
    cure: str


@dataclass(frozen=True)
class StreamFault:
    """``path``: the damaged file or folder; ``problem``: the rest of a sentence that begins with the path; ``lost``:
    what can't be read without the file.
    """

    path: str
    problem: str
    lost: str


class System(Protocol):
    """A place for named, partitioned, ordered logs. Its answers are always up to date, because others may create
    streams, too.

    Inherit from it: methods that aren't abstract have defaults for a system that has nothing to do for them.

    All methods that take a stream raise NotFoundError if there is none of that name. Threads may share an object. It
    can be pickled, because it is sent to Python workers. It doesn't connect before it is used.
    """

    spark: ClassVar[str] = "anabranch.systems.reading.spark"
    """The module that is its :class:`anabranch.systems.reading.spark.SparkSide`. No other module of the system may
    import PySpark. The default module reads any system that has ``ends`` and ``read``.
    """

    stream_settings: ClassVar[tuple[str, ...]] = ()
    """Which of ``delivery``, ``on_data_loss`` and ``topic`` a section ``[streams.NAME]`` may contain."""

    real_time: ClassVar[bool] = False
    """Whether records arrive one by one in Spark's real-time mode."""

    gapless: ClassVar[bool] = True
    """Whether every offset is a record. If not, never count records by subtraction."""

    foreign_producers: ClassVar[bool] = False
    """Whether other programs may write its streams, and may assign keys to partitions differently."""

    connector: ClassVar[bool] = False
    """Whether Spark needs jars to read and write it, which :meth:`session_needs` names."""

    begins_in_folder: ClassVar[bool] = False
    """Whether Spark's source finds its start offsets in its checkpoint folder, whatever its options said before. If so,
    its query can be analyzed before they are known.
    """

    remote: ClassVar[bool] = True
    """Whether it is reached over a network, so that it isn't asked for the ends of its streams at every batch."""

    error_cures: ClassVar[Sequence[tuple[str, str]]] = ()
    """Cures for errors of clients and of Java: regular expressions for ``kind: message``, with the cures."""

    name: str
    """The system's name in SSPs and in settings."""

    @classmethod
    @abstractmethod
    def opened(cls, name: str, settings: Settings, job: str) -> Self:
        """The system configured by ``settings.systems.sections[name]``. ``job`` may be ''.

        Raises:
            ConfigError: a setting isn't allowed.
        """
        ...

    def dataset(self, stream: str) -> tuple[str, str]:
        """The namespace and the name by which other programs know a stream, which needn't exist:
        https://openlineage.io/docs/spec/naming/
        """
        return self.name, stream

    # Streams and their offsets

    @abstractmethod
    def streams(self) -> list[str]:
        """The names of all streams, sorted."""
        ...

    @abstractmethod
    def counts(self) -> dict[str, int]:
        """The partition counts of all streams, by name."""
        ...

    @abstractmethod
    def partitions(self, stream: str) -> int:
        """How many partitions a stream has."""
        ...

    @abstractmethod
    def id(self, stream: str) -> str:
        """What distinguishes a stream from one of the same name that was created after it was deleted."""
        ...

    @abstractmethod
    def create(self, stream: str, partitions: int, internal: bool = False) -> None:
        """Create a stream. An existing one with that count is left as it is. ``internal``: whether it is between two
        stages.

        Raises:
            ConflictError: the stream exists with another count.
        """
        ...

    @abstractmethod
    def expand(self, stream: str, partitions: int) -> None:
        """Raise a stream's partition count to a multiple of the present one. It can't be lowered again."""
        ...

    @abstractmethod
    def starts(self, stream: str) -> dict[int, int]:
        """Partition → offset of the oldest existing record."""
        ...

    @abstractmethod
    def ends(self, stream: str, partitions: Iterable[int] | None = None) -> dict[int, int]:
        """Partition → the offset that the next record will get: one past the last that a reader may see.

        Offsets may have gaps (Kafka's transactions take up some), so never count records by subtraction.
        """
        ...

    @abstractmethod
    def high_watermarks(self, stream: str) -> dict[int, int]:
        """Partition → the end, including records that readers can't see yet, and may never see: those of open
        transactions."""
        ...

    def known_ends(self, stream: str) -> dict[int, int]:
        """Like :meth:`high_watermarks`, for a stream that this object asks for repeatedly."""
        return self.high_watermarks(stream)

    @abstractmethod
    def offset_at(self, stream: str, unix_ms: int) -> dict[int, int]:
        """Partition → the first offset whose record has this timestamp or a later one; the end if there is none."""
        ...

    @abstractmethod
    def read(self, stream: str, partition: int, ranges: Sequence[Range]) -> Iterator[Records]:
        """All records in these ranges, which rise and don't overlap, in order.

        Raises:
            LogError: part of a range doesn't exist any more.
        """
        ...

    @abstractmethod
    def appender(self, stream: str) -> Appender:
        """Adds records to a stream."""
        ...

    @abstractmethod
    def controls(self, stream: str, partition: int, cursor: int, position: int) -> tuple[list[dict[str, Any]], int]:
        """The control records of an intermediate stream that apply to a reader at ``position`` of a partition.

        They are the ones after ``cursor`` whose preceding records have all been read. Also returns the new cursor (-1:
        none).
        """
        ...

    def offset(self, stream: str, id: str, positions: Mapping[int, int]) -> dict[str, Any]:
        """Positions in the form in which the Spark source writes them to the offset log.
        :class:`anabranch.container.checkpoint.offset_log.Entry` knows this form, as well as that of Spark's Kafka
        connector.
        """
        return {"stream": stream, "id": id, "positions": {str(p): at for p, at in sorted(positions.items())}}

    def racks(self, stream: str) -> Mapping[int, tuple[str | None, ...]]:
        """Partition → the racks of its replicas, the leader's first; None for a broker without a rack. Empty: the
        system has no racks.
        """
        return {}

    def commit_positions(self, group: str, positions: Mapping[str, Mapping[int, int]]) -> None:
        """Report how far a group has read (stream → partition → offset), for tools that show lag. Nothing else reads
        this.
        """
        return

    def purge(self, stream: str, before: Mapping[int, int]) -> None:
        """Delete the records of an intermediate stream before these offsets, by partition, because no lane will read
        them again."""
        return

    def retain(self, stream: str, retention: Retention | None, *, past_readers: bool = False) -> int:
        """Set how long a stream keeps its records, unless ``retention`` is None, and delete those that it no longer
        keeps; those that jobs have still to read only with ``past_readers``. Returns how many records were deleted.

        Raises:
            UsageError: retention is up to the system itself, or its own tools.
        """
        raise UsageError(
            f"{stream} is in {self.name}, which decides itself how long it keeps records",
            "use its own tools, such as kafka-configs with retention.ms and retention.bytes",
        )

    def retention(self, stream: str) -> Retention | None:
        """How long a stream keeps its records; None: the system itself decides."""
        return None

    def readers(self) -> Readers | None:
        """The jobs that read its streams, for which its own retention keeps what they have still to read; None: it
        doesn't keep account of them.
        """
        return None

    # A lane's output. A lane may write to streams of several systems; these are asked of each of them.

    @abstractmethod
    def publisher(self, lane: Lane, epoch: int) -> Publisher:
        """A publisher that writes for one incarnation of a lane, exactly once."""
        ...

    @abstractmethod
    def fence(self, lane: Lane, epoch: int, new: bool | None) -> None:
        """Stop every incarnation of a lane below ``epoch``: once this returns, none of them can publish any more.
        Idempotent; after an error, it is called again. It is called by the coordinator, which has no Spark.

        ``new``: whether no batch of the lane was ever planned; None: unknown.

        Raises:
            ConflictError, FencedError: a process with a higher epoch has the lane.
        """
        ...

    def recover(self, lane: Lane, epoch: int, new: bool | None) -> None:
        """End what a former process of the lane left open, before the outputs are asked for their contents. Called by
        the lane's new process, which has the lane under ``epoch``.
        """
        return

    def withdraw(self, lane: Lane, epoch: int, new: bool | None) -> int:
        """Withdraw the right to write for a lane whose query has ended here, until it takes its outputs again. Returns
        the last batch that is then in an output, at least in part, or -1 if that isn't known (:meth:`published` is
        asked as well).
        """
        return -1

    @abstractmethod
    def published(self, lane: Lane) -> int:
        """The last batch of a lane that is in any output here, at least in part, -1 if none."""
        ...

    def seen(self, lane: Lane) -> int:
        """Like :meth:`published`, for a running lane and outputs whose writers make rows visible before the driver
        publishes a batch; -1 if there are no such outputs. There may be later batches by now.
        """
        return -1

    @abstractmethod
    def writers(self, job: str, streams: Sequence[str]) -> dict[str, str]:
        """The lanes of a job that are recorded as writers of any of these streams, each with the place, for a message.
        Streams that don't exist are skipped.
        """
        ...

    # What else a job and its user need

    def session_needs(self) -> SessionNeeds:
        """What a session needs when it starts, in order to read and write here."""
        return SessionNeeds()

    def faults(self, stream: str) -> Sequence[StreamFault]:
        """The problems of a stream's files, for ``anabranch check``. If streams are stored by another program, checking
        them is up to that program.
        """
        return ()

    def archive(self) -> Archive | None:
        """How its streams become part of a job's backup; None: they stay where they are."""
        return None

    def folders(self) -> Sequence[Folder]:
        """The folders that it needs, which are created if they don't exist."""
        return ()

    def checks(self) -> Mapping[str, Callable[[], str]]:
        """The checks of ``anabranch doctor``, by name. Each returns its finding, or raises AnabranchError."""
        return {}
