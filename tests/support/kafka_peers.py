"""A broker for tests, and clients of it that share nothing with ours: what others see of what a job has written."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from anabranch.systems.kafka import jars
from anabranch.testing import broker

PATIENCE = 200.0
PROPERTIES = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "transaction.max.timeout.ms": "180000",
}
RACK = "r7"


class Seen(NamedTuple):
    """A record as a consumer gets it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


def start(folder: Path) -> broker.Cluster:
    """A cluster of one broker."""
    found = jars.broker_folder()
    assert found is not None, "a broker's jars are needed: anabranch jars fetch broker"
    return broker.start(folder, found, racks=[RACK], properties=PROPERTIES)


def clear(servers: str) -> None:
    """Delete all topics and consumer groups; returns when they are gone."""
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 4})
    deadline = time.monotonic() + PATIENCE
    while (topics := _topics(admin)) or (groups := _groups(admin)):
        assert time.monotonic() < deadline, f"these are still there after {PATIENCE:g} s: {topics or groups}"
        gone = admin.delete_topics(topics) if topics else admin.delete_consumer_groups(groups)
        for future in gone.values():
            _settle(future.exception())


def delete(servers: str, topic: str, admin: AdminClient | None = None) -> None:
    """Delete a topic; returns when it is gone. ``admin``: needed where clients must log in."""
    if admin is None:  # a client counts as False
        admin = AdminClient({"bootstrap.servers": servers, "log_level": 4})
    admin.delete_topics([topic])[topic].result(PATIENCE)
    deadline = time.monotonic() + PATIENCE
    while topic in _topics(admin):
        assert time.monotonic() < deadline, f"{topic} is still there after {PATIENCE:g} s"


def said_to_the_console(servers: str, topic: str, keys: Sequence[str]) -> None:
    """Put records with these keys by the broker's own console producer."""
    found = jars.broker_folder()
    assert found is not None
    reading = [word for each in ("parse.key=true", "key.separator=\t") for word in ("--property", each)]
    words = "--bootstrap-server", servers, "--topic", topic, *reading
    subprocess.run(
        ["java", "-cp", f"{found}/*", "org.apache.kafka.tools.ConsoleProducer", *words],
        input="".join(f"{key}\tfrom the console\n" for key in keys).encode(),
        timeout=PATIENCE,
        check=True,
        capture_output=True,
    )


def certified(folder: Path) -> broker.Tls:
    """A certificate of 127.0.0.1 that has signed itself, by Java's keytool."""
    keystore, ca, password = folder / "broker.p12", folder / "ca.pem", "changeit"
    common = "keytool", "-keystore", str(keystore), "-storetype", "PKCS12", "-storepass", password, "-alias", "broker"
    made = "-keyalg", "RSA", "-dname", "CN=127.0.0.1", "-ext", "SAN=ip:127.0.0.1", "-validity", "2"
    for words in (("-genkeypair", *made), ("-exportcert", "-rfc", "-file", str(ca))):
        subprocess.run([*common, *words], check=True, capture_output=True, timeout=PATIENCE)
    return broker.Tls(keystore, password, ca)


def committed(servers: str, topic: str) -> Iterator[Seen]:
    """All records of a topic that are committed now, partition by partition in order."""
    with _consumer(servers) as consumer:
        for number in sorted(consumer.list_topics(topic, PATIENCE).topics[topic].partitions):
            consumer.assign([TopicPartition(topic, number, 0)])
            while (message := consumer.poll(PATIENCE)) is not None:
                error = message.error()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:
                    break
                assert error is None, error
                offset = message.offset()
                assert offset is not None
                yield Seen(number, offset, message.key(), message.value())
            else:
                raise AssertionError(f"nothing of {topic}/{number} within {PATIENCE:g} s, and not its end")


@contextmanager
def _consumer(servers: str) -> Iterator[Consumer]:
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "peer",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
        }
    )
    try:
        yield consumer
    finally:
        consumer.close()


def _topics(admin: AdminClient) -> list[str]:
    return [name for name in admin.list_topics(timeout=PATIENCE).topics if not name.startswith("__")]


def _groups(admin: AdminClient) -> list[str]:
    listed = admin.list_consumer_groups().result(PATIENCE)
    assert not listed.errors, listed.errors
    return [each.group_id for each in listed.valid]


def _settle(error: BaseException | None) -> None:
    """What is gone already is fine, and a group that somebody is still leaving is asked again."""
    passing = {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.GROUP_ID_NOT_FOUND,
        KafkaError.NON_EMPTY_GROUP,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.NOT_COORDINATOR,
    }
    if error is not None and not (isinstance(error, KafkaException) and error.args[0].code() in passing):
        raise error
