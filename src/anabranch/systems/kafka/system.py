"""Kafka as a system, for the planner, lanes and the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Self

from anabranch.config import KafkaSettings, Settings
from anabranch.model.lane import Lane
from anabranch.systems.contract import Range, Records, SessionNeeds, System
from anabranch.systems.findings import JavaClasses, OpenTransaction
from anabranch.systems.kafka import clients, errors, jars, markers, open_transactions, output, records
from anabranch.systems.kafka.append import KafkaAppender
from anabranch.systems.kafka.cluster import Cluster, PerProcess
from anabranch.systems.kafka.controls import ControlLog
from anabranch.systems.kafka.topics import UNCOMMITTED, Topics

__all__ = ["INTERNAL", "KafkaSystem"]

INTERNAL = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
"""Settings for the topic of an intermediate stream. The topic keeps its records until :meth:`KafkaSystem.purge` deletes
them.

A time limit would be wrong. A broker computes a record's age from the record's timestamp, and records of an
intermediate stream have the timestamps of the input. If a job reads last year's data, every finished segment would be
too old for any usual limit. Brokers would delete the segment within minutes, even if it hasn't been read. Also, if a
lane was down for a long time, unread records would be deleted. ``LogAppendTime`` would prevent such deletions, but
would change the timestamps that the next stage sees.
"""


class KafkaSystem(System):
    """A Kafka cluster's topics as streams. Readers see only committed records: a partition ends at its last stable
    offset.

    Args:
        settings: how to reach the cluster.
        topics: maps a stream's name to the name of its topic, for each stream whose topic has a different name.
        controls_topic: the topic for the control records of a job's intermediate streams; not needed without a job.
        patience: how many seconds to wait for an answer.
    """

    name = "kafka"
    spark = "anabranch.systems.kafka.spark"
    stream_settings = KafkaSettings.stream_settings
    real_time = True
    gapless = False  # transactions take up offsets, too
    foreign_producers = True
    transactional = True
    connector = True
    begins_in_folder = True
    error_cures = errors.CURES

    def __init__(
        self,
        settings: KafkaSettings,
        topics: Mapping[str, str] | None = None,
        controls_topic: str = "",
        patience: float = 15.0,
    ) -> None:
        self.settings = settings
        self._names = dict(topics or {})
        self._controls_topic = controls_topic
        self._patience = patience
        self._topics = Topics(Cluster(settings, patience), self._names)
        self._controls = PerProcess(lambda: ControlLog(self._topics, controls_topic))

    @classmethod
    def opened(cls, name: str, settings: Settings, job: str) -> Self:
        topics = {stream: each.topic for stream, each in settings.streams.items() if each.topic is not None}
        return cls(settings.systems.kafka, topics, f"{job}-controls" if job else "")

    def __reduce__(self) -> tuple[type[KafkaSystem], tuple[Any, ...]]:
        return KafkaSystem, (self.settings, self._names, self._controls_topic, self._patience)

    def __str__(self) -> str:
        return self.shown

    @property
    def shown(self) -> str:
        """The cluster's name for messages."""
        return self._topics.cluster.shown

    def topic(self, stream: str) -> str:
        """The topic of a stream."""
        return self._topics.topic(stream)

    def dataset(self, stream: str) -> tuple[str, str]:
        return f"kafka://{clients.first_server(self.settings)}", self.topic(stream)

    def streams(self) -> list[str]:
        return self._topics.names()

    def counts(self) -> dict[str, int]:
        return self._topics.counts()

    def partitions(self, stream: str) -> int:
        return len(self._topics.describe(stream).partitions)

    def id(self, stream: str) -> str:
        return str(self._topics.describe(stream).topic_id)

    def create(self, stream: str, partitions: int, internal: bool = False) -> None:
        """See :meth:`System.create`. Waits until every broker knows the topic. An internal topic gets the settings
        ``INTERNAL``."""
        self._topics.create(stream, partitions, INTERNAL if internal else {})

    def expand(self, stream: str, partitions: int) -> None:
        self._topics.expand(stream, partitions)

    def starts(self, stream: str) -> dict[int, int]:
        return self._topics.starts(stream)

    def ends(self, stream: str, partitions: Iterable[int] | None = None) -> dict[int, int]:
        """The last stable offsets, which are held back by open transactions."""
        return self._topics.ends(stream, partitions)

    def high_watermarks(self, stream: str) -> dict[int, int]:
        """The ends including the records of open transactions."""
        return self._topics.ends(stream, isolation=UNCOMMITTED)

    def open_transaction(self, stream: str, partition: int, java: JavaClasses) -> OpenTransaction | None:
        return open_transactions.find(self._topics, stream, partition, java)

    def offset_at(self, stream: str, unix_us: int) -> dict[int, int]:
        """See :meth:`System.offset_at`. Kafka's timestamps are in milliseconds, so the time is rounded up to one."""
        ends = self.ends(stream)
        found = self._topics.at(stream, max(0, -(-unix_us // 1000)), ends)
        return {number: min(found[number], end) if found[number] >= 0 else end for number, end in ends.items()}

    def offset(self, stream: str, id: str, positions: Mapping[int, int]) -> dict[str, Any]:
        """Positions in the form in which Spark's connector writes them."""
        return {self.topic(stream): {str(p): at for p, at in sorted(positions.items())}}

    def racks(self, stream: str) -> dict[int, tuple[str | None, ...]]:
        return self._topics.racks(stream)

    def purge(self, stream: str, before: Mapping[int, int]) -> None:
        self._topics.delete_before(stream, before)

    def commit_positions(self, group: str, positions: Mapping[str, Mapping[int, int]]) -> None:
        """Commit positions as the offsets of a consumer group without members."""
        self._topics.commit(group, positions)

    def read(self, stream: str, partition: int, ranges: Sequence[Range]) -> Iterator[Records]:
        """See :meth:`System.read`. Closing the generator closes its consumer."""
        return records.read(self._topics, stream, partition, ranges)

    def appender(self, stream: str) -> KafkaAppender:
        return KafkaAppender(self._topics, stream)

    def controls(self, stream: str, partition: int, cursor: int, position: int) -> tuple[list[dict[str, Any]], int]:
        return self._control_log().heard(stream, partition, cursor, position)

    def tell(self, stream: str, control: Mapping[str, Any]) -> None:
        """Write a control record of an intermediate stream; see :meth:`ControlLog.tell`."""
        self._control_log().tell(stream, control)

    def _control_log(self) -> ControlLog:
        if not self._controls_topic:
            raise ValueError("this KafkaSystem was made without controls_topic")
        return self._controls.get()

    def publisher(self, lane: Lane, epoch: int) -> output.KafkaPublisher:
        topics = {stream: self.topic(stream) for stream in lane.outputs if lane.system(stream) == self.name}
        return output.KafkaPublisher(self.settings, topics, self, lane, epoch)

    def fence(self, lane: Lane, epoch: int, new: bool | None) -> None:
        output.fence(self.settings, lane, epoch, new=new)

    def recover(self, lane: Lane, epoch: int, new: bool | None) -> None:
        """End the open transactions of the lane's earlier process. The markers in these transactions can't be read
        until the transactions have ended."""
        output.fence(self.settings, lane, epoch, new=new)

    def withdraw(self, lane: Lane, epoch: int, new: bool | None) -> int:
        return output.fence(self.settings, lane, epoch, new=new, closed=True)

    def published(self, lane: Lane) -> int:
        return output.published(self.settings, lane)

    def seen(self, lane: Lane) -> int:
        return output.peeked(self.settings, lane)

    def writers(self, job: str, streams: Sequence[str]) -> dict[str, str]:
        """All lanes of the job that have markers, whatever their streams. (Markers don't name streams.)"""
        return dict.fromkeys(sorted(markers.lanes(self.settings, job)), f"the cluster {self}")

    def session_needs(self) -> SessionNeeds:
        found = jars.found(self.settings)
        summary = "the Kafka connector of the PySpark that is installed" if found.packages == jars.of_pyspark() else ""
        fetchable = "connector" if found.source != "setting" and self.settings.packages is None else ""
        return SessionNeeds(found.conf(), found.origin, summary, jars.OTHERS, fetchable)

    def checks(self) -> Mapping[str, Callable[[], str]]:
        return {"kafka": self._check}

    def _check(self) -> str:
        cluster = Cluster(self.settings, self._patience)
        return f"{cluster.shown}, {len(cluster.metadata('looking at the brokers').brokers)} broker(s)"
