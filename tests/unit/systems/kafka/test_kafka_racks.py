"""In which racks a topic's replicas are, as told by a cluster that is made up."""

from __future__ import annotations

from types import SimpleNamespace as Made
from typing import Any

import pytest

from anabranch.errors import AnabranchError
from anabranch.systems.kafka.topics import Topics


class MadeCluster:
    """A cluster with these brokers, by their racks, and a topic with these partitions, each with its replicas."""

    patience = 1.0
    shown = "made up"

    def __init__(self, brokers: dict[int, str | None], *partitions: tuple[int, ...]) -> None:
        hosts = {number: Made(id=number, host="here", rack=rack) for number, rack in brokers.items()}
        replicas = [[hosts.get(each, Made(id=each, host=None, rack=None)) for each in its] for its in partitions]
        self.partitions = [Made(id=number, leader=its[0], replicas=its) for number, its in enumerate(replicas)]

    def ask(self, request: Any) -> Any:
        return request(self)

    def describe_topics(self, *_: Any, **__: Any) -> Any:
        return {"f": Made(partitions=self.partitions)}


def racks(cluster: Any) -> dict[int, tuple[str | None, ...]]:
    return Topics(cluster).racks("f")


def test_a_broker_that_restarts_does_not_hide_the_racks_of_the_others() -> None:
    """Broker 3, in rack c, isn't listed meanwhile."""
    assert racks(MadeCluster({1: "a", 2: "b"}, (1, 2), (2, 3), (3, 1))) == {0: ("a", "b"), 1: ("b",), 2: ("a",)}


def test_a_partition_whose_brokers_are_all_away_is_told_of() -> None:
    with pytest.raises(AnabranchError, match=r"none of the brokers that have partition 1 of f is there \(3, 4\)"):
        racks(MadeCluster({1: "a"}, (1,), (4, 3)))


def test_a_broker_without_a_rack_is_told_of() -> None:
    assert racks(MadeCluster({1: "a", 2: None, 3: ""}, (1, 2), (3, 1))) == {0: ("a", None), 1: (None, "a")}
