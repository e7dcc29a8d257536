"""Requests to brokers that don't answer, and to those of which only the one that was asked has died."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from anabranch.config import KafkaSettings
from anabranch.errors import AnabranchError
from anabranch.systems.kafka import cluster as module
from anabranch.systems.kafka.cluster import Cluster


class Admin:
    """Answers, or doesn't, as the test says for each client that is made in turn."""

    answers: list[Any] = []
    made = 0

    def __init__(self, properties: Any) -> None:
        self.answer = Admin.answers[min(Admin.made, len(Admin.answers) - 1)]
        Admin.made += 1
        self.asked = 0

    def poll(self, seconds: float) -> None:
        return

    def request(self) -> dict[str, Future[str]]:
        self.asked += 1
        future: Future[str] = Future()
        if isinstance(self.answer, float):
            threading.Timer(self.answer, future.set_result, ["late"]).start()
        elif isinstance(self.answer, KafkaError):
            future.set_exception(KafkaException(self.answer))
        elif self.answer is not None:
            future.set_result(self.answer)
        return {"it": future}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setattr(module, "AdminClient", Admin)
    Admin.made = 0
    return Cluster(KafkaSettings(bootstrap_servers="localhost:9092"), patience=1.0)


def asked(cluster: Cluster, **given: Any) -> Any:
    return cluster.ask(lambda admin: admin.request(), **given)  # type: ignore[attr-defined]


def test_another_client_is_made_if_the_first_gets_no_answer(cluster: Cluster) -> None:
    Admin.answers = [None, "here"]
    begun = time.monotonic()
    assert asked(cluster) == {"it": "here"}
    assert time.monotonic() - begun < 0.9
    assert asked(cluster) == {"it": "here"}
    assert Admin.made == 2, "the second client is kept"


def test_a_connection_that_broke_is_no_answer_either(cluster: Cluster) -> None:
    Admin.answers = [KafkaError(KafkaError._TRANSPORT), "here"]
    assert asked(cluster) == {"it": "here"}


def test_brokers_that_never_answer_are_given_up_once_the_patience_is_over(cluster: Cluster) -> None:
    Admin.answers = [None]
    begun = time.monotonic()
    with pytest.raises(AnabranchError, match="didn't answer for 1 s"):
        asked(cluster)
    assert time.monotonic() - begun >= 1.0
    assert Admin.made == 3  # one after another


def test_what_must_not_be_done_twice_is_asked_once(cluster: Cluster) -> None:
    Admin.answers = [None, "here"]
    with pytest.raises(AnabranchError, match="didn't answer for 1 s"):
        asked(cluster, repeatable=False)
    assert Admin.made == 1


def test_a_slow_answer_counts_though_other_clients_have_asked_meanwhile(cluster: Cluster) -> None:
    Admin.answers = [0.9, None]
    assert asked(cluster) == {"it": "late"}


def test_where_answers_are_slow_the_next_request_waits_for_its_answer(cluster: Cluster) -> None:
    Admin.answers = [0.3]
    assert asked(cluster) == {"it": "late"}
    made = Admin.made
    assert asked(cluster) == {"it": "late"}
    assert Admin.made == made
