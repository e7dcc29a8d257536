"""A broker that answers without naming any broker: it is waited for, and the process lives."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

import anabranch
from anabranch.config import KafkaSettings
from anabranch.errors import AnabranchError
from anabranch.systems.kafka.cluster import Cluster
from anabranch.systems.kafka.topics import Topics
from tests.support.kafka_without_brokers import Server

ENDLESS = 1_000_000


@contextmanager
def cluster(named: int, nameless: int, patience: float, *topics: str) -> Iterator[Cluster]:
    with closing(Server(named, nameless, topics)) as server:
        yield Cluster(KafkaSettings(bootstrap_servers=f"127.0.0.1:{server.port}"), patience)


@pytest.mark.parametrize("topics", [[], ["flights"]])
@pytest.mark.parametrize("named", [0, 1, 2, 3])
def test_the_answer_with_brokers_is_waited_for(named: int, topics: list[str]) -> None:
    with cluster(named, 4, 20.0, *topics) as found:
        assert list(found.metadata("looking at the brokers").brokers) == [0]
        assert list(Topics(found, {}).counts()) == topics


def test_another_server_answers_for_one_that_knows_no_broker() -> None:
    with closing(Server(0, ENDLESS)) as lost, closing(Server(ENDLESS, 0)) as well:
        servers = f"127.0.0.1:{lost.port},127.0.0.1:{well.port}"
        found = Cluster(KafkaSettings(bootstrap_servers=servers), 20.0)
        assert [each.port for each in found.metadata("looking at the brokers").brokers.values()] == [well.port]


@pytest.mark.parametrize("named", [0, 1, 2])
def test_a_cluster_that_never_names_a_broker_does_not_answer(named: int) -> None:
    with cluster(named, ENDLESS, 1.0, "flights") as found, pytest.raises(AnabranchError, match="didn't answer for 1 s"):
        [found.metadata("looking at the brokers") for _ in range(named + 1)]


def test_nothing_asks_for_the_cluster_in_the_way_that_can_end_the_process() -> None:
    files = Path(anabranch.__file__).parent.rglob("*.py")
    assert [str(file) for file in files if re.search(r"\.describe_cluster\(", file.read_text())] == []
