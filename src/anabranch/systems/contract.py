"""What every system gives to the rest: its streams, a lane's output into it, and what a session and a user need.

Nothing outside of ``anabranch.systems`` asks which system it has: what they do differently stands here.
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

from anabranch.model.lane import Lane
from anabranch.systems.archive import Archive
from anabranch.systems.output import Publisher

if TYPE_CHECKING:
    from anabranch.config import Settings  # slow to import, and a lane's clock is a process of its own

__all__ = ["Appender", "Folder", "Offsets", "Range", "Records", "SessionNeeds", "StreamFault", "System"]

Offsets = npt.NDArray[np.int64]

Records = tuple[Offsets, pa.RecordBatch]
"""The offsets of some records of one partition, rising, and the records in the columns of ``RECORD_SCHEMA``."""

Range = tuple[int, int]
"""The first offset, and the one after the last."""


class Appender(Protocol):
    """Adds records to one stream from outside of any job. For one thread."""

    def append(self, batch: pa.RecordBatch) -> int:
        """Add a batch in the columns of ``RECORD_SCHEMA``, each record to the partition that murmur2 of its key
        says; null keys go anywhere. It is durable when this returns. Gives the number of records."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class SessionNeeds:
    """What a Spark session must be started with. ``conf``: Spark's settings; those of jars and packages are joined with
    what others need.

    ``jars``: a set of :data:`anabranch.jars.pinned.SETS` that would do instead of packages, if it were fetched.

    In words: ``origin``: where that comes from; ``summary``: what the packages are; ``cure``: what to do where no Maven
    repository has them.
    """

    conf: Mapping[str, str] = field(default_factory=dict)
    origin: str = ""
    summary: str = ""
    cure: str = ""
    jars: str = ""


@dataclass(frozen=True)
class Folder:
    """A folder that every process of a job must see. ``cure``: what to do where one doesn't."""

    label: str
    path: Path
    cure: str


@dataclass(frozen=True)
class StreamFault:
    """``path``: the file or folder that is damaged; ``problem``: the rest of a sentence that begins with it; ``lost``:
    what can't be read without it."""

    path: str
    problem: str
    lost: str


class System(Protocol):
    """A place of named, partitioned, ordered logs. Answers are fresh: others may create streams, too.

    Inherit from it: what is not abstract here says what is so of a system that has nothing to do for it.

    All methods that take a stream raise NotFoundError if there is none of that name. An object may be shared by
    threads and can be pickled: it travels to Python workers. It connects to nothing before it is asked something.
    """

    spark: ClassVar[str] = "anabranch.systems.reading.spark"
    """The module that is its :class:`anabranch.systems.reading.spark.SparkSide`: nothing else of it may import PySpark.
    This one reads any system by ``ends`` and ``read``."""

    stream_settings: ClassVar[tuple[str, ...]] = ()
    """Which of ``delivery``, ``on_data_loss`` and ``topic`` a section ``[streams.NAME]`` may have."""

    real_time: ClassVar[bool] = False
    """Whether records come one by one in Spark's real-time mode."""

    gapless: ClassVar[bool] = True
    """Whether every offset is a record. Never count records by subtraction where this is false."""

    foreign_producers: ClassVar[bool] = False
    """Whether other programs may write streams, and put keys into partitions in another way than ours."""

    connector: ClassVar[bool] = False
    """Whether Spark reads and writes it by jars, which :meth:`session_needs` names."""

    begins_in_folder: ClassVar[bool] = False
    """Whether Spark's source finds in its checkpoint folder where it begins, whatever it was told before: its query can
    then be analyzed before that is known."""

    remote: ClassVar[bool] = True
    """Whether it is asked over a network, so that it isn't asked at every batch where its streams end."""

    error_cures: ClassVar[Sequence[tuple[str, str]]] = ()
    """What helps against errors of clients and of Java: regular expressions for ``kind: message``, and the cures."""

    name: str
    """As in SSPs, and in settings."""

    @classmethod
    @abstractmethod
    def opened(cls, name: str, settings: Settings, job: str) -> Self:
        """The system as settings have it, ``settings.systems.sections[name]``. ``job`` may be ''.

        Raises:
            ConfigError: a setting that isn't allowed.
        """
        ...

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
        """What tells a stream from another one of the same name, made after it was deleted."""
        ...

    @abstractmethod
    def create(self, stream: str, partitions: int, internal: bool = False) -> None:
        """Make a stream; one that is there with that count is left as it is. ``internal``: between two stages.

        Raises:
            ConflictError: it is there with another count.
        """
        ...

    @abstractmethod
    def expand(self, stream: str, partitions: int) -> None:
        """Raise a stream's partition count to a multiple of the present one. It can't be lowered again."""
        ...

    @abstractmethod
    def starts(self, stream: str) -> dict[int, int]:
        """Partition → offset of the oldest record that is kept."""
        ...

    @abstractmethod
    def ends(self, stream: str, partitions: Iterable[int] | None = None) -> dict[int, int]:
        """Partition → the offset that the next record will get: one past the last that a reader may see.

        Offsets may have gaps (Kafka's transactions take some): never count records by subtraction.
        """
        ...

    @abstractmethod
    def high_watermarks(self, stream: str) -> dict[int, int]:
        """Partition → the end with what readers can't see yet, and maybe never will: that of open transactions."""
        ...

    def known_ends(self, stream: str) -> dict[int, int]:
        """As :meth:`high_watermarks`, of a stream that this object asks for again and again."""
        return self.high_watermarks(stream)

    @abstractmethod
    def offset_at(self, stream: str, unix_ms: int) -> dict[int, int]:
        """Partition → the first offset whose record has this timestamp or a later one; the end if none has."""
        ...

    @abstractmethod
    def read(self, stream: str, partition: int, ranges: Sequence[Range]) -> Iterator[Records]:
        """All records of these ranges, which rise and don't overlap, in order.

        Raises:
            LogError: some of the range isn't kept any more.
        """
        ...

    @abstractmethod
    def appender(self, stream: str) -> Appender:
        """Adds records to a stream."""
        ...

    @abstractmethod
    def controls(self, stream: str, partition: int, cursor: int, position: int) -> tuple[list[dict[str, Any]], int]:
        """The control records of an intermediate stream that a reader at ``position`` of a partition must heed.

        They are those after ``cursor`` before whose place all records were read; with the new cursor (-1: none).
        """
        ...

    def offset(self, stream: str, id: str, positions: Mapping[int, int]) -> dict[str, Any]:
        """Positions as the Spark source writes them to the offset log.
        :class:`anabranch.container.checkpoint.offset_log.Entry` knows this form, and Spark's Kafka connector's."""
        return {"stream": stream, "id": id, "positions": {str(p): at for p, at in sorted(positions.items())}}

    def racks(self, stream: str) -> Mapping[int, tuple[str | None, ...]]:
        """Partition → the racks that hold a replica of it, its leader's first; None: of a broker without one. Empty:
        the system has no racks."""
        return {}

    def commit_positions(self, group: str, positions: Mapping[str, Mapping[int, int]]) -> None:
        """Tell how far a group has read, stream → partition → offset, for tools that show lag. Nobody else reads it."""
        return

    def purge(self, stream: str, before: Mapping[int, int]) -> None:
        """Delete the records of an intermediate stream before these offsets, by partition: no lane will read them
        again."""
        return

    # A lane's output. A lane may write to streams of several systems; these are asked of each of them.

    @abstractmethod
    def publisher(self, lane: Lane, epoch: int) -> Publisher:
        """Writes for one incarnation of a lane, exactly once."""
        ...

    @abstractmethod
    def fence(self, lane: Lane, epoch: int, new: bool | None) -> None:
        """Stop every incarnation of a lane below ``epoch``: once this returns, none can publish any more. Idempotent;
        after an error, it is called again. The coordinator calls it, which has no Spark.

        ``new``: no batch of the lane was ever planned; None: that isn't known.

        Raises:
            ConflictError, FencedError: a process with a higher epoch has the lane.
        """
        ...

    def recover(self, lane: Lane, epoch: int, new: bool | None) -> None:
        """End what a former process of the lane left open, before it is looked what the outputs hold. The lane's new
        process calls it, which has the lane under ``epoch``."""
        return

    def withdraw(self, lane: Lane, epoch: int, new: bool | None) -> int:
        """Let nobody write for a lane any more whose query has ended here, until it takes its outputs anew. Gives the
        last batch of which an output holds anything then, -1 if that isn't known: :meth:`published` is asked, too."""
        return -1

    @abstractmethod
    def published(self, lane: Lane) -> int:
        """The last batch of a lane of which any output here holds anything, -1 if none."""
        ...

    def seen(self, lane: Lane) -> int:
        """As :meth:`published`, while the lane is at work, of outputs whose writers make rows visible before the driver
        publishes a batch; -1 if there are none. It may be a later one by now."""
        return -1

    @abstractmethod
    def writers(self, job: str, streams: Sequence[str]) -> dict[str, str]:
        """The lanes of a job that are remembered to have written any of these streams, and where, for a message.
        Streams that aren't there are passed over."""
        ...

    # What else a job and its user need

    def session_needs(self) -> SessionNeeds:
        """What a session must be started with to read and write here."""
        return SessionNeeds()

    def faults(self, stream: str) -> Sequence[StreamFault]:
        """What is wrong with the files of a stream, as ``anabranch check`` tells it. Streams that others keep are
        theirs to look at."""
        return ()

    def archive(self) -> Archive | None:
        """How its streams become part of a job's backup; None: they go on living where they are."""
        return None

    def folders(self) -> Sequence[Folder]:
        """The folders that it needs, which are made where they aren't there."""
        return ()

    def checks(self) -> Mapping[str, Callable[[], str]]:
        """What ``anabranch doctor`` looks at, by name: each says what it has found, or raises AnabranchError."""
        return {}
