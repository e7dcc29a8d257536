"""Finds the open transaction that keeps readers of committed records from a partition's newest records."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Consumer, TopicPartition

from anabranch.errors import AnabranchError
from anabranch.systems.findings import JavaClasses, OpenTransaction
from anabranch.systems.kafka import clients
from anabranch.systems.kafka.topics import UNCOMMITTED, Topics

__all__ = ["find"]

_JAVA_SECONDS = 5
_READ_SECONDS = 5.0
_ADMIN = "org.apache.kafka.clients.admin"


def find(topics: Topics, stream: str, partition: int, java: JavaClasses) -> OpenTransaction | None:
    """See :meth:`anabranch.systems.contract.System.open_transaction`.

    Only the brokers know which producer started the transaction, and only Java's client can ask the brokers (KIP-664).
    If this request fails, for example because the user has no right to make it, the result contains the error in place
    of the producer.

    Raises:
        AnabranchError: the brokers don't answer, or they refuse the client.
    """
    end = topics.ends(stream, [partition])[partition]
    last = topics.ends(stream, [partition], UNCOMMITTED)[partition]
    if last <= end:
        return None
    place = topics.topic(stream), partition
    try:
        producer = _producer(topics, *place, end, java)
    except Exception as error:  # Java's errors have no common class in Python
        producer = f"an unknown producer ({_first_line(error)})"
    return OpenTransaction(
        offset=end,
        behind=last - end,
        since=_written(topics, *place, end),
        producer=producer,
        cure="it ends when its producer commits or aborts it, or after the producer's transaction.timeout.ms. If it "
        f"stays open for longer: kafka-transactions.sh --bootstrap-server … abort --topic {place[0]} --partition "
        f"{partition} --start-offset {end}, which discards what the producer has written in it",
    )


def _written(topics: Topics, topic: str, partition: int, offset: int) -> float | None:
    """The time in seconds since 1970 of the record at this offset, even if the record isn't committed; None if the time
    isn't known. With ``LogAppendTime``, this is the time at which the broker wrote the record. Otherwise, this is the
    timestamp that the producer gave the record.
    """
    wanted = {"group.id": "anabranch-reads", "isolation.level": "read_uncommitted", "enable.auto.commit": False}
    consumer, _ = topics.cluster.open(Consumer, wanted)
    try:
        consumer.assign([TopicPartition(topic, partition, offset)])
        message = consumer.poll(_READ_SECONDS)
        if message is None or message.error() is not None or message.offset() != offset:
            return None
        kind, milliseconds = message.timestamp()
        return milliseconds / 1000 if kind else None
    finally:
        consumer.close()


def _producer(topics: Topics, topic: str, partition: int, offset: int, java: JavaClasses) -> str:
    """A description of the producer whose transaction begins at this offset. If the brokers don't name the producer,
    raises AnabranchError or one of Java's errors."""
    properties = java("java.util.HashMap")()
    for name, value in clients.java(topics.cluster.settings).items():
        properties.put(name, value)
    admin = java(f"{_ADMIN}.Admin").create(properties)
    try:
        place = java("org.apache.kafka.common.TopicPartition")(topic, partition)
        one = java("java.util.Collections").singleton(place)
        found = _got(admin.describeProducers(one).partitionResult(place), java)
        begun = [each for each in found.activeProducers() if each.currentTransactionStartOffset().orElse(-1) == offset]
        if not begun:
            raise AnabranchError("the brokers name none", "see kafka-transactions.sh describe-producers")
        number, epoch = begun[0].producerId(), begun[0].producerEpoch()
        # Brokers leave out the transactions that this user isn't allowed to see.
        known = _got(admin.listTransactions().all(), java)
        ids = [each.transactionalId() for each in known if each.producerId() == number]
        name = f"the producer with the transactional id {ids[0]}" if ids else "a producer"
        return f"{name} (producer id {number}, epoch {epoch})"
    finally:
        admin.close(java("java.time.Duration").ofSeconds(1))


def _got(future: Any, java: JavaClasses) -> Any:
    return future.get(_JAVA_SECONDS, java("java.util.concurrent.TimeUnit").SECONDS)


def _first_line(error: Exception) -> str:
    cause = getattr(error, "java_exception", None)
    while cause is not None and cause.getCause() is not None:
        cause = cause.getCause()
    return str(error if cause is None else cause.toString()).strip().split("\n")[0]
