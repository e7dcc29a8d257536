"""Creates, expands, lists and describes the topics of streams, deletes old records, and finds and commits offsets."""

from __future__ import annotations

import difflib
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from confluent_kafka import (
    OFFSET_INVALID,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec, ResourceType, TopicDescription  # type: ignore[attr-defined]
from confluent_kafka.cimpl import NewPartitions, NewTopic

from anabranch.deadlines import wait_until
from anabranch.errors import AnabranchError, ConflictError, NotFoundError, UsageError
from anabranch.systems.kafka.cluster import Cluster

__all__ = ["COMMITTED", "LARGEST", "LIMIT", "UNCOMMITTED", "Topics"]

LARGEST, LIMIT = 1_000_000, "max.message.bytes"
"""librdkafka's default size limit in bytes for a batch of records, and the topic setting for the brokers' limit."""

COMMITTED = IsolationLevel.READ_COMMITTED
UNCOMMITTED = IsolationLevel.READ_UNCOMMITTED

V = TypeVar("V")

_NAME = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9._-]{1,249}")
_STEP_SECONDS = 0.02
_TRIES = 3
_UNKNOWN = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError._NOENT,
}


class Topics:
    """A cluster's topics, by the names of streams. Some streams have a topic with a different name: ``topics`` maps the
    names of these streams to the names of their topics.
    """

    def __init__(self, cluster: Cluster, topics: Mapping[str, str] | None = None) -> None:
        self.cluster = cluster
        self._topics = dict(topics or {})
        self._streams = {topic: stream for stream, topic in self._topics.items()}

    def topic(self, stream: str) -> str:
        """The topic of a stream. Raises UsageError if no topic can have that name."""
        topic = self._topics.get(stream, stream)
        if not _NAME.fullmatch(topic):
            raise UsageError(
                f"{topic!r} can't be the name of a stream",
                "use letters, digits, '.', '_' and '-', at most 249, and not '.' or '..'",
            )
        return topic

    def largest(self, topics: Iterable[str]) -> dict[str, int]:
        """The size limit in bytes of each topic's batches of records; ``LARGEST`` if it can't be looked up."""
        resources = {topic: ConfigResource(ResourceType.TOPIC, topic) for topic in topics}
        asked, wait = [*resources.values()], self.cluster.patience
        answers = self.cluster.ask(lambda admin: admin.describe_configs(asked, request_timeout=wait))
        found = {topic: answers[resource] for topic, resource in resources.items()}
        return {t: LARGEST if isinstance(a, KafkaError) else int(a[LIMIT].value) for t, a in found.items()}

    def counts(self) -> dict[str, int]:
        """The partition count of each stream, by the stream's name. Topics whose names begin with ``__``, such as
        Kafka's own, are left out. If a stream is bound to a topic with another name, there may also be a topic with the
        stream's own name. Such a topic is left out, too, unless a different stream is bound to it.
        """
        found = self.cluster.metadata("listing the topics").topics
        counts = {
            self._streams.get(topic, topic): len(told.partitions)
            for topic, told in found.items()
            if not topic.startswith("__") and (topic in self._streams or topic not in self._topics)
        }
        return dict(sorted(counts.items()))

    def names(self) -> list[str]:
        """The names of all streams, sorted."""
        return list(self.counts())

    def find(self, stream: str) -> TopicDescription | None:
        """A stream's topic; None if it doesn't exist."""
        topic, wait = self.topic(stream), self.cluster.patience
        found = self.cluster.ask(lambda admin: admin.describe_topics(TopicCollection([topic]), request_timeout=wait))
        answer = found[topic]
        if isinstance(answer, KafkaError):
            if answer.code() in _UNKNOWN:
                return None
            raise self.cluster.explained(answer, f"looking at {stream}")
        return answer  # type: ignore[no-any-return]

    def describe(self, stream: str) -> TopicDescription:
        """A stream's topic. If the topic doesn't exist, raises NotFoundError. If a stream has a similar name, the error
        suggests this stream."""
        found = self.find(stream)
        if found is None:
            near = difflib.get_close_matches(stream, self.names(), n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise NotFoundError(
                f"there is no stream {stream} on the Kafka cluster {self.cluster.shown}{hint}",
                "see all with `anabranch stream list`, or create it: "
                f"`anabranch stream create {stream} --partitions 4`",
            )
        return found

    def create(self, stream: str, partitions: int, config: Mapping[str, str]) -> None:
        """Create a stream's topic, unless the topic exists with this number of partitions. Wait until every broker
        knows the topic. ``config`` contains Kafka's settings for a new topic.

        Raises:
            ConflictError: the topic exists with another partition count.
            UsageError: the name isn't allowed, ``partitions`` is less than 1, or the brokers refuse the settings.
            ConfigError: the brokers refuse the replication factor.
            AnabranchError: the brokers don't create the topic, or not all of its partitions get a leader in time.
        """
        topic = self.topic(stream)
        if partitions < 1:
            raise UsageError(f"{stream} can't have {partitions} partitions", "it needs one or more")
        new = NewTopic(topic, partitions, self.cluster.settings.replication_factor, config=dict(config))
        wait = self.cluster.patience
        made = self.cluster.ask(lambda admin: admin.create_topics([new], request_timeout=wait, operation_timeout=wait))
        error = made[topic]
        if error is not None and error.code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise self.cluster.explained(error, f"making {stream}")
        if error is not None:
            there = len(self._soon(stream).partitions)
            if there != partitions:
                raise ConflictError(
                    f"{stream} already exists, with {there} partitions instead of {partitions}",
                    f"choose another name, or look at it with `anabranch stream describe {stream}`",
                )
        self._wait_everywhere(stream, partitions)

    def _soon(self, stream: str) -> TopicDescription:
        """Wait until a broker describes the topic of a stream, and return the topic. If the topic has just been
        created, the broker that answers may not know it yet."""

        def late() -> AnabranchError:
            return NotFoundError(
                f"the topic of {stream} exists, but no broker of {self.cluster.shown} describes it", "try again"
            )

        return wait_until(lambda: self.find(stream), self.cluster.patience, late, _STEP_SECONDS)

    def expand(self, stream: str, partitions: int) -> None:
        """Raise a stream's partition count to a multiple of the current one, and wait until every broker knows the new
        partitions.

        Raises:
            UsageError: ``partitions`` isn't a multiple of the current count.
            AnabranchError: the brokers don't add the partitions, or not all of them get a leader in time.
        """
        there = len(self.describe(stream).partitions)
        if partitions == there:
            return
        if partitions < there or partitions % there:
            raise UsageError(
                f"{stream} has {there} partitions and can't have {partitions}",
                f"use a multiple, so that keys stay together: {there * 2}, {there * 3}, …",
            )
        topic, wait = self.topic(stream), self.cluster.patience
        wider = NewPartitions(topic, partitions)
        made = self.cluster.ask(
            lambda admin: admin.create_partitions([wider], request_timeout=wait, operation_timeout=wait),
            repeatable=False,
        )
        error = made[topic]
        if error is not None:
            raise self.cluster.explained(error, f"expanding {stream}")
        self._wait_everywhere(stream, partitions)

    def starts(self, stream: str, partitions: Iterable[int] | None = None) -> dict[int, int]:
        """The offset at which each partition in ``partitions`` begins. If ``partitions`` is None, the offsets for all
        partitions.
        """
        return self._offsets(stream, OffsetSpec.earliest(), COMMITTED, partitions)  # type: ignore[no-untyped-call]

    def ends(
        self, stream: str, partitions: Iterable[int] | None = None, isolation: IsolationLevel = COMMITTED
    ) -> dict[int, int]:
        """The last stable offset of each partition in ``partitions`` or, with ``UNCOMMITTED``, the high watermark. If
        ``partitions`` is None, the offsets for all partitions.
        """
        return self._offsets(stream, OffsetSpec.latest(), isolation, partitions)  # type: ignore[no-untyped-call]

    def at(self, stream: str, unix_ms: int, partitions: Iterable[int]) -> dict[int, int]:
        """For each partition, the offset of the first record with the timestamp ``unix_ms`` or later; -1 if none."""
        return self._offsets(stream, OffsetSpec.for_timestamp(unix_ms), COMMITTED, partitions)

    def check(self, stream: str, partition: int) -> None:
        """Raise NotFoundError unless the stream has this partition."""
        count = len(self.describe(stream).partitions)
        if not 0 <= partition < count:
            raise NotFoundError(f"{stream} has no partition {partition}", f"its partitions are 0 to {count - 1}")

    def racks(self, stream: str) -> dict[int, tuple[str | None, ...]]:
        """The racks of each partition's replicas, without duplicates, and with the leader's rack first. None stands for
        a broker without a rack. Replicas on brokers that aren't running at the moment are left out.

        Raises:
            AnabranchError: none of a partition's brokers is running.
        """
        found = {}
        for part in self.describe(stream).partitions:
            nodes = [*([part.leader] if part.leader is not None else []), *part.replicas]
            found[part.id] = tuple(dict.fromkeys(node.rack or None for node in nodes if node.host))
            if not found[part.id]:
                brokers = ", ".join(str(number) for number in sorted({node.id for node in part.replicas}))
                raise AnabranchError(
                    f"none of the brokers that have partition {part.id} of {stream} is there ({brokers}) on the Kafka "
                    f"cluster {self.cluster.shown}",
                    "start them, or wait until they have restarted",
                )
        return found

    def delete_before(self, stream: str, offsets: Mapping[int, int]) -> None:
        """Delete the records before the offset that ``offsets`` has for each partition."""
        topic, wait = self.topic(stream), self.cluster.patience
        before = [TopicPartition(topic, number, offset) for number, offset in offsets.items()]
        self._of_partitions(
            stream,
            f"deleting old records of {stream}",
            lambda admin: admin.delete_records(before, request_timeout=wait, operation_timeout=wait),
            list(offsets),
        )

    def commit(self, group: str, positions: Mapping[str, Mapping[int, int]]) -> None:
        """Commit offsets, by stream and partition, for a consumer group without members. If the brokers refuse some
        offsets, the others are committed, and an error for the first refused offset is raised.
        """
        places = [
            TopicPartition(self.topic(stream), number, offset)
            for stream, each in positions.items()
            for number, offset in each.items()
        ]
        wanted, wait = ConsumerGroupTopicPartitions(group, places), self.cluster.patience
        answers = self.cluster.ask(lambda admin: admin.alter_consumer_group_offsets([wanted], request_timeout=wait))
        answer = answers[group]
        if isinstance(answer, KafkaError):
            raise self.cluster.explained(answer, f"committing positions of group {group}")
        for place in answer.topic_partitions:
            if place.error is not None:
                where = f"{self._streams.get(place.topic, place.topic)}, partition {place.partition}"
                raise self.cluster.explained(place.error, f"committing the position of group {group} in {where}")

    def _offsets(
        self, stream: str, at: Any, isolation: IsolationLevel, partitions: Iterable[int] | None
    ) -> dict[int, int]:
        topic, wait = self.topic(stream), self.cluster.patience / _TRIES
        numbers = range(len(self.describe(stream).partitions)) if partitions is None else list(partitions)
        wanted = {TopicPartition(topic, number): at for number in numbers}
        answers: dict[int, Any] = self._of_partitions(
            stream,
            f"looking up offsets of {stream}",
            lambda admin: admin.list_offsets(wanted, isolation_level=isolation, request_timeout=wait),
            numbers,
        )
        return {number: int(answer.offset) for number, answer in answers.items()}

    def _of_partitions(
        self,
        stream: str,
        doing: str,
        request: Callable[[AdminClient], Mapping[TopicPartition, Future[V]]],
        partitions: Sequence[int],
    ) -> dict[int, V]:
        """The answers for ``partitions``. The request is repeated while answers are missing, for example because the
        client's view of the topic is outdated."""
        deadline = time.monotonic() + self.cluster.patience
        while partitions:
            found: dict[int, V] = {}
            for place, answer in self.cluster.ask(request).items():
                if not isinstance(answer, KafkaError):
                    if getattr(answer, "offset", 0) != OFFSET_INVALID:
                        found[place.partition] = answer
                    continue
                if answer.code() not in _UNKNOWN:
                    raise self.cluster.explained(answer, doing)
                self.check(stream, place.partition)
            if len(found) == len(partitions):
                return dict(sorted(found.items()))
            if time.monotonic() > deadline:
                missing = ", ".join(str(number) for number in partitions if number not in found)
                raise AnabranchError(
                    f"{doing} on the Kafka cluster {self.cluster.shown}: for {self.cluster.patience:g} s no broker "
                    f"answered for the partitions {missing}",
                    "check that the brokers that hold them run",
                )
            self._refresh(stream)
        return {}

    def _refresh(self, stream: str) -> None:
        self.cluster.metadata(f"looking at {stream}", self.topic(stream))

    def _wait_everywhere(self, stream: str, partitions: int) -> None:
        """Wait until every broker knows all partitions of a stream, and until the partitions' leaders serve them. Each
        broker is asked separately, because a client asks only the broker through which it connected.
        """
        brokers = self.cluster.metadata("looking at the brokers", self.topic(stream)).brokers.values()
        views = [self]
        if len(brokers) > 1:
            views = [Topics(self.cluster.other(f"{each.host}:{each.port}"), self._topics) for each in brokers]
        late = AnabranchError(
            f"{stream} was made on the Kafka cluster {self.cluster.shown}, but not all of its {partitions} partitions "
            "have a leader yet on all of its brokers",
            "check that all brokers run, then try again: what is there is kept",
        )
        wait_until(
            lambda: all(view._led(stream, partitions) for view in views) or None,
            self.cluster.patience,
            lambda: late,
            _STEP_SECONDS,
        )
        self.ends(stream, range(partitions), UNCOMMITTED)

    def _led(self, stream: str, partitions: int) -> bool:
        found = self.find(stream)
        return (
            found is not None
            and len(found.partitions) >= partitions
            and all(part.leader is not None and part.leader.id >= 0 for part in found.partitions)
        )

    def _answer(self, doing: str, request: Callable[[AdminClient], Future[V]]) -> V:
        answer = self.cluster.ask(lambda admin: {"": request(admin)})[""]
        if isinstance(answer, KafkaError):
            raise self.cluster.explained(answer, doing)
        return answer
