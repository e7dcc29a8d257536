"""The broker that all sides of a run share, and what the benchmarks do with its topics."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic, OffsetSpec  # type: ignore[attr-defined]

from anabranch.config import KafkaSettings
from anabranch.systems.kafka import jars
from anabranch.testing import broker
from bench.support.processes import side

ROOT = Path(__file__).parents[2]
PARTITIONS = 4
FLAGS = ("-Xms1g", "-Xmx1g")
"""These flags keep Java's default compilers and garbage collector. The broker of the tests has other flags, with which
it starts sooner but is slower.
"""

PATIENT = {"broker.heartbeat.interval.ms": "2000", "broker.session.timeout.ms": "60000"}
"""Longer timeouts than in the tests, where a broker counts as dead if it sends no heartbeat for 3 s."""

UNLED = {
    KafkaError._NOENT,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
}

FILLERS = 2


@dataclass(frozen=True)
class Cluster:
    """A fresh broker. ``folder`` contains the broker's data, and a folder for each side."""

    bootstrap_servers: str
    folder: Path
    connector: tuple[Path, ...]
    admin: AdminClient

    def create(self, topic: str) -> None:
        self.admin.create_topics([NewTopic(topic, PARTITIONS)])[topic].result(60)
        # A client that asks too early believes for minutes that there is no leader. So each check has its own client.
        while not self._is_led(topic):
            time.sleep(0.1)

    def _is_led(self, topic: str) -> bool:
        try:
            _end(_admin(self.bootstrap_servers), topic)
        except KafkaException as error:
            if error.args[0].code() not in UNLED:
                raise
            return False
        return True

    def expand(self, topic: str, partitions: int) -> None:
        for future in self.admin.create_partitions([NewPartitions(topic, partitions)]).values():
            future.result(60)

    def delete(self, *topics: str) -> None:
        for future in self.admin.delete_topics(list(topics)).values():
            future.result(60)

    def end(self, topic: str) -> int:
        """The sum of the end offsets of a topic's partitions, for readers of committed records."""
        return _end(self.admin, topic, len(self.admin.list_topics(topic, timeout=60).topics[topic].partitions))

    def records(self, topic: str) -> Iterator[Message]:
        """All committed records of a topic. The records of a partition are in order."""
        consumer = self.consumer()
        consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
        ended = 0
        try:
            while ended < PARTITIONS:
                for message in consumer.consume(10_000, 1.0):
                    error = message.error()
                    if error is None:
                        yield message
                    elif error.code() == KafkaError._PARTITION_EOF:
                        ended += 1
                    else:
                        raise RuntimeError(f"{topic} can't be read: {error}")
        finally:
            consumer.close()

    def consumer(self) -> Consumer:
        """A consumer of committed records that is fast with many records and prompt with a few."""
        return Consumer(
            {
                "bootstrap.servers": self.bootstrap_servers,
                "log_level": 2,
                "group.id": "bench",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
                "queued.min.messages": 1_000_000,
                "queued.max.messages.kbytes": 1_000_000,
                "fetch.queue.backoff.ms": 5,
                "fetch.wait.max.ms": 100,
            }
        )

    def fill(self, topic: str, records: int, keys: int) -> int:
        """Make a topic of flights (see :mod:`bench.support.flights`). Returns how many of these flights are late."""
        self.create(topic)
        begun = time.monotonic()
        folder = self.folder / f"fill-{topic}"
        files = [folder / f"{number}.json" for number in range(FILLERS)]
        with side(folder) as filling:
            for number, file in enumerate(files):
                share = records * (number + 1) // FILLERS - records * number // FILLERS
                filling.start(python("bench.support.flights", self.bootstrap_servers, topic, share, keys, number, file))
            filling.finish()
        late = sum(int(file.read_text()) for file in files)
        print(f"{records:,} records in {topic} after {time.monotonic() - begun:.0f} s", flush=True)
        return late


def _admin(bootstrap_servers: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 2})


def _end(admin: AdminClient, topic: str, partitions: int = PARTITIONS) -> int:
    wanted = {TopicPartition(topic, number): OffsetSpec.latest() for number in range(partitions)}  # type: ignore[no-untyped-call]
    asked = admin.list_offsets(wanted, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=60)
    return sum(int(future.result().offset) for future in asked.values())


def python(module: str, *arguments: object) -> list[str]:
    """A command that runs a module of this repository."""
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); import runpy; runpy.run_module({module!r}, {{}}, '__main__')"
    )
    return [sys.executable, "-c", code, *map(str, arguments)]


@contextmanager
def fresh() -> Iterator[Cluster]:
    """Start a broker in a temporary folder, from fetched jars."""
    folder, connector = fetched_jars()
    with (
        tempfile.TemporaryDirectory(prefix="anabranch-bench-", ignore_cleanup_errors=True) as name,
        broker.start(Path(name) / "broker", folder, properties=PATIENT, flags=FLAGS) as started,
    ):
        servers = started.bootstrap_servers
        yield Cluster(servers, Path(name), connector, _admin(servers))


def fetched_jars() -> tuple[Path, tuple[Path, ...]]:
    """The folder with the broker's jars, and the paths of the connector's jars. Missing jars are fetched."""
    folder, connector = jars.broker_folder(), jars.found(KafkaSettings())
    if folder is None or connector.source != "cache":
        subprocess.run([str(ROOT / "scripts" / "fetch-jars")], stdout=subprocess.DEVNULL, check=True)
        folder, connector = jars.broker_folder(), jars.found(KafkaSettings())
    assert folder is not None
    return folder, connector.paths
