"""Clusters of our own keep what they acknowledged, show their racks, ask for passwords, and die with their owner."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from anabranch.errors import AnabranchError
from anabranch.systems.kafka import jars
from anabranch.testing import broker

pytestmark = pytest.mark.integration

PATIENCE = 100.0

OWNER = """
import sys
from pathlib import Path
from anabranch.testing import broker
cluster = broker.start(Path(sys.argv[1]), Path(sys.argv[2]))
print(cluster.bootstrap_servers, flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def folder() -> Path:
    found = jars.broker_folder()
    assert found is not None, "a broker's jars are needed: anabranch jars fetch broker gets them"
    return found


@pytest.fixture(scope="module")
def cluster(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[broker.Cluster]:
    with broker.start(tmp_path_factory.mktemp("cluster"), folder) as started:
        yield started


@pytest.mark.long
def test_what_was_acknowledged_outlives_a_kill_and_a_stop(cluster: broker.Cluster) -> None:
    servers = cluster.bootstrap_servers
    create("kept", 1, {"bootstrap.servers": servers})
    produce("kept", ["one", "two"], servers)
    killed = cluster.pid()
    cluster.kill()
    with pytest.raises(ProcessLookupError):
        os.kill(killed, 0)

    cluster.start_again()
    assert cluster.bootstrap_servers == servers
    assert cluster.pid() != killed
    produce("kept", ["three"], servers)
    cluster.stop()
    assert not serves(servers)

    cluster.start_again()
    assert consume("kept", 3, servers) == ["one", "two", "three"]
    with pytest.raises(AnabranchError, match="broker 0 runs already"):
        cluster.start_again()


@pytest.mark.long
def test_three_brokers_are_in_their_racks_and_share_what_they_keep(tmp_path: Path, folder: Path) -> None:
    with broker.start(tmp_path, folder, 3, ["r0", "r1", "r2"]) as cluster:
        client = {"bootstrap.servers": cluster.bootstrap_servers}
        admin = AdminClient(client)
        nodes = admin.describe_cluster().result(PATIENCE).nodes
        assert {node.id: node.rack for node in nodes} == {0: "r0", 1: "r1", 2: "r2"}
        create("replicated", 1, client)
        produce("replicated", ["one"], cluster.bootstrap_servers)
        partition = admin.list_topics("replicated", timeout=PATIENCE).topics["replicated"].partitions[0]
        assert sorted(partition.replicas) == [0, 1, 2]


@pytest.mark.long
def test_a_killed_owner_leaves_no_broker(tmp_path: Path, folder: Path) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path), str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with owner:
        assert owner.stdout is not None
        host, port = owner.stdout.readline().decode().strip().split(":")
        with socket.create_connection((host, int(port)), timeout=PATIENCE) as connection:
            owner.send_signal(signal.SIGKILL)
            assert ended(connection)


def test_a_client_needs_the_password(tmp_path: Path, folder: Path) -> None:
    password = 'wéird "\\ one'
    with broker.start(tmp_path, folder, sasl={"ann": password}) as cluster:
        right = {
            "bootstrap.servers": cluster.bootstrap_servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "ann",
            "sasl.password": password,
        }
        create("secret", 1, right)
        end = time.monotonic() + PATIENCE
        while "secret" not in AdminClient(right).list_topics(timeout=PATIENCE).topics:  # the broker hears of it later
            assert time.monotonic() < end
        refusals: list[str] = []
        wrong = {**right, "sasl.password": "other", "error_cb": lambda error: refusals.append(error.name())}
        admin = AdminClient(wrong)
        while "_AUTHENTICATION" not in refusals:
            assert admin.poll(PATIENCE), "it was let in"


def test_a_broker_that_cannot_start_says_why(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(AnabranchError, match=r"broker 0 ended while it started(.|\n)*no\.such\.Selector"):
        broker.start(tmp_path, folder, properties={"replica.selector.class": "no.such.Selector"})


@pytest.mark.long
def test_a_port_that_another_broker_took_meanwhile_is_replaced(
    cluster: broker.Cluster, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (fresh,) = broker.free_ports(1)
    taken = replace(fresh, client=int(cluster.bootstrap_servers.split(":")[1]))
    choices = iter([[taken], [fresh]])
    monkeypatch.setattr(broker, "free_ports", lambda count: next(choices))
    with broker.start(tmp_path, folder) as other:
        assert other.bootstrap_servers == f"{broker.ADDRESS}:{fresh.client}"
        assert serves(other.bootstrap_servers)
    assert not serves(other.bootstrap_servers)
    assert serves(cluster.bootstrap_servers)


def create(topic: str, partitions: int, client: dict[str, str]) -> None:
    admin = AdminClient(client)  # its answers come only while it lives
    admin.create_topics([NewTopic(topic, partitions)])[topic].result(PATIENCE)


def produce(topic: str, values: Iterable[str], servers: str) -> None:
    producer = Producer({"bootstrap.servers": servers, "acks": "all"})
    for value in values:
        producer.produce(topic, value.encode())
    assert producer.flush(PATIENCE) == 0


def consume(topic: str, count: int, servers: str) -> list[str]:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "test", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        messages = consumer.consume(count, PATIENCE)
    finally:
        consumer.close()
    return [(message.value() or b"").decode() for message in messages]


def serves(servers: str) -> bool:
    host, port = servers.split(":")
    with socket.socket() as connection:
        return connection.connect_ex((host, int(port))) == 0


def ended(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True
