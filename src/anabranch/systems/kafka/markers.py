"""Encodes and reads the markers of slots, and creates the markers' topic. A marker states what a slot wrote last. It is
committed together with the slot's records, as an offset of a consumer group on a topic that belongs to the job.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from typing import Any, Self

import msgspec
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from anabranch.config import KafkaSettings
from anabranch.deadlines import wait_until
from anabranch.errors import AnabranchError, OutOfTimeError, StateError, UnsupportedFormatError
from anabranch.model.document import Document
from anabranch.systems.kafka.clients import librdkafka
from anabranch.systems.kafka.relogin import Relogin

__all__ = [
    "NOTHING",
    "Marker",
    "Markers",
    "decode",
    "encode",
    "group_id",
    "lane_of",
    "lanes",
    "markers",
    "peeked",
    "prepare",
    "topic",
    "transactional_id",
]

FORMAT_VERSION = 1
NOTHING = -1
"""The batch number in a marker that was written before the slot's first batch."""

_LIMIT = 4_096  # the brokers' default limit in bytes for the metadata of a group's offset
_PATIENCE = 30.0
_STEP_SECONDS = 0.05
_MOVING = {
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
}
"""The error codes in brokers' answers while a consumer group has no coordinator. This can happen if the cluster is new,
or if a broker has ended.
"""

_LANE = re.compile(r"(?P<lane>[^.]+-[0-9a-f]{8})\..+")  # the lane and its output group


class Marker(Document, frozen=True, kw_only=True):
    """What a slot of a lane last committed.

    Attributes:
        lane: the lane's id.
        lineage: None. Only markers of older versions can name a lane here.
        batch: the number of the last batch; -1 if the slot has committed no batch.
        epoch: the lane's epoch when the marker was written. A process with a lower epoch can't write to the slot.
        instance: the producer that wrote the marker.
        closed: whether the slot is closed: no process may write to it until a process takes the lane's slots again.
        rows: how many records the slot has ever written.
    """

    lane: str
    lineage: str | None = None
    batch: int = NOTHING
    epoch: int
    instance: str
    closed: bool = False
    rows: int = 0


def topic(job: str) -> str:
    """The topic whose partitions stand for the slots of a job's lanes. It contains no records."""
    return f"{job}-markers"


def group_id(prefix: str, job: str, lane: str, group: str) -> str:
    """The consumer group whose offsets are the markers of a lane. ``group`` is the lane's output group."""
    return f"{prefix}.{job}.{lane}.{group}"


def transactional_id(prefix: str, job: str, lane: str, group: str, slot: int) -> str:
    """The transactional id that a producer must hold to write to a slot."""
    return f"{group_id(prefix, job, lane, group)}.{slot}"


def encode(marker: Marker) -> tuple[int, str]:
    """A marker as the offset and the metadata of a partition. Raises AnabranchError if the metadata is
    longer than brokers accept by default.
    """
    fields = {name: value for name, value in marker.to_builtins().items() if (name, value) != ("lineage", None)}
    text = msgspec.json.encode({"v": FORMAT_VERSION, **fields}).decode()
    if len(text.encode()) > _LIMIT:
        raise AnabranchError(
            f"a marker of lane {marker.lane[:100]} would have {len(text.encode())} bytes; Kafka takes {_LIMIT}",
            "choose a shorter name for the job",
        )
    return marker.batch + 1, text


def decode(offset: int, metadata: str | None) -> Marker:
    """The inverse of :func:`encode`.

    Raises:
        UnsupportedFormatError: the marker has another format version.
        StateError: the offset isn't a marker, for example because the group's offsets were set manually.
    """
    try:
        fields = msgspec.json.decode(metadata or "", type=dict[str, Any])
        version = fields.pop("v", None)
        if version is not None and version != FORMAT_VERSION:
            raise UnsupportedFormatError(
                f"a marker of format version {version} can't be read by this anabranch (it knows {FORMAT_VERSION})",
                "upgrade anabranch; nothing was changed",
            )
        marker = None if version is None else Marker.from_builtins(fields)
    except (msgspec.DecodeError, RecursionError):
        marker = None
    if marker is None or marker.batch + 1 != offset:
        raise StateError(
            f"the offset {offset} with metadata {(metadata or '')[:200]!r} is not a marker",
            "offsets of groups that begin with [systems.kafka] prefix must not be set by other tools; what the slot "
            "has written is not known any more: drain the job's outputs by hand and start it as a new one",
        )
    return marker


class Markers:
    """Reads the markers of a lane's output group. Thread-safe. Close the reader, or use it in ``with``."""

    def __init__(self, settings: KafkaSettings, job: str, lane: str, group: str) -> None:
        self.group = group_id(settings.prefix, job, lane, group)
        self._topic = topic(job)
        properties = {
            **librdkafka(settings),
            "group.id": self.group,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",  # otherwise the broker returns the marker before a pending one
        }
        self._consumer = Consumer(properties)
        self._relogin = Relogin(settings, self._consumer, properties)

    def read(self, slots: Iterable[int], timeout: float = _PATIENCE) -> dict[int, Marker | None]:
        """Return the committed marker of each slot; None for a slot without a marker. Wait for pending transactions
        that contain a marker.

        Raises:
            OutOfTimeError: there was no answer within ``timeout`` seconds.
            AnabranchError: the brokers refused the request.
            StateError, UnsupportedFormatError: a marker can't be decoded.
        """
        wanted = [TopicPartition(self._topic, slot) for slot in slots]
        if not wanted:
            return {}
        deadline = time.monotonic() + timeout
        while True:
            try:
                found = self._consumer.committed(wanted, max(0.1, deadline - time.monotonic()))
            except KafkaException as error:
                if error.args[0].code() not in _MOVING or time.monotonic() > deadline:
                    raise self._unread(error.args[0]) from error
                time.sleep(_STEP_SECONDS)
            else:
                return {each.partition: self._decoded(each) for each in found}

    def place(self, slot: int, marker: Marker) -> TopicPartition:
        """The marker as the offset that a transaction commits."""
        offset, metadata = encode(marker)
        return TopicPartition(self._topic, slot, offset, metadata)

    def group_metadata(self) -> object:
        """The group, in the form that ``send_offsets_to_transaction`` needs."""
        return self._consumer.consumer_group_metadata()

    def close(self) -> None:
        self._consumer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _decoded(self, found: TopicPartition) -> Marker | None:
        if found.error is not None and found.error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise self._unread(found.error) from KafkaException(found.error)
        return None if found.error is not None or found.offset < 0 else decode(found.offset, found.metadata)

    def _unread(self, error: KafkaError) -> AnabranchError:
        late = error.code() in {KafkaError._TIMED_OUT, KafkaError.UNSTABLE_OFFSET_COMMIT}
        return (OutOfTimeError if late else AnabranchError)(
            f"the markers of group {self.group} can't be read: {error.str()}",
            "check that the brokers of [systems.kafka] answer, and that this user may read the group; if a process "
            "died in a transaction, the answer comes at the latest after its transaction_timeout",
        )


def markers(settings: KafkaSettings, job: str, lane: str, group: str, slots: Iterable[int]) -> dict[int, Marker | None]:
    """The marker of each slot of a lane; None for a slot without a marker. Raises what :meth:`Markers.read` raises."""
    with Markers(settings, job, lane, group) as reader:
        return reader.read(slots)


def peeked(settings: KafkaSettings, job: str, lane: str, group: str, slots: Iterable[int]) -> int:
    """The last batch that any of ``slots`` has committed; -1 if there is none. Doesn't wait for pending commits to end.
    Raises AnabranchError if the brokers don't answer, or if they refuse the request.
    """
    name, its = group_id(settings.prefix, job, lane, group), [TopicPartition(topic(job), slot) for slot in slots]
    admin = AdminClient(librdkafka(settings))  # must live until the answer is there
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(name, its)], request_timeout=_PATIENCE)
    try:
        found = asked[name].result().topic_partitions
    except KafkaException as error:
        raise AnabranchError(
            f"the markers of group {name} can't be looked at: {error.args[0].str()}",
            "check that the brokers of [systems.kafka] answer, and that this user may read the group",
        ) from error
    return max((each.offset - 1 for each in found if each.error is None and each.offset > 0), default=NOTHING)


def lanes(settings: KafkaSettings, job: str) -> set[str]:
    """The lanes of a job that have markers. Raises AnabranchError if not all consumer groups can be listed."""
    admin = AdminClient(librdkafka(settings))  # must live until the answer is there
    listed = admin.list_consumer_groups(request_timeout=_PATIENCE).result()
    if listed.errors:
        raise AnabranchError(
            f"the groups of the Kafka cluster can't all be listed: {listed.errors[0]}",
            "check that the brokers of [systems.kafka] answer",
        )
    found = (lane_of(each.group_id, settings.prefix, job) for each in listed.valid)
    return {lane for lane in found if lane is not None}


def lane_of(group: str, prefix: str, job: str) -> str | None:
    """The lane whose markers are in a consumer group; None if the group has no markers of this job."""
    begin = f"{prefix}.{job}."
    found = _LANE.fullmatch(group.removeprefix(begin)) if group.startswith(begin) else None
    return None if found is None else found["lane"]


def prepare(settings: KafkaSettings, job: str, slots: int) -> None:
    """Create or expand the job's topic for markers if necessary, and wait until the topic has at least ``slots``
    partitions. Raises AnabranchError if the cluster doesn't allow this, or takes too long.
    """
    admin, name = AdminClient(librdkafka(settings)), topic(job)
    asked, count = False, 0

    def look() -> int | None:
        nonlocal asked, count
        count = _partitions(admin, name)
        if count >= slots:
            return count
        asked = not asked
        if not asked:  # the change may not be visible yet: repeat the request only after another look
            return None
        if count == 0:
            made = admin.create_topics([NewTopic(name, slots, settings.replication_factor)])
            _settle(made[name].exception(), name, slots, KafkaError.TOPIC_ALREADY_EXISTS)
        else:
            made = admin.create_partitions([NewPartitions(name, slots)])
            _settle(made[name].exception(), name, slots, KafkaError.INVALID_PARTITIONS)
        return None

    def late() -> AnabranchError:
        return AnabranchError(
            f"topic {name} still has {count} partitions of {slots}", "check the cluster's controller, then try again"
        )

    wait_until(look, _PATIENCE, late, 0.05)


def _partitions(admin: AdminClient, name: str) -> int:
    try:
        return len(admin.describe_topics(TopicCollection([name]))[name].result().partitions)
    except KafkaException as error:
        if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return 0
        raise AnabranchError(
            f"topic {name} can't be looked at: {error.args[0].str()}",
            "check that the brokers of [systems.kafka] answer and let this user describe it",
        ) from error


def _settle(error: BaseException | None, name: str, slots: int, beaten: int) -> None:
    """Raise an error if a request to create or expand a topic has failed. The code ``beaten`` isn't a failure: it means
    that another process changed the topic first."""
    if isinstance(error, KafkaException) and error.args[0].code() != beaten:
        raise AnabranchError(
            f"topic {name} can't be made with {slots} partitions: {error.args[0].str()}",
            "let this user create and alter it, or make it by hand; it holds markers, no records",
        ) from error
