"""How long a process waits for an answer that may never come."""

from __future__ import annotations

import gc
import threading
import time
import weakref

import pytest
from confluent_kafka import KafkaError, KafkaException

from anabranch.systems.kafka.bounded_calls import BoundedCalls


@pytest.fixture
def calls() -> BoundedCalls:
    return BoundedCalls(shortest=0.1, longest=0.4)


def test_a_call_that_hangs_is_given_up_soon_and_each_further_one_later(calls: BoundedCalls) -> None:
    never = threading.Event()
    for wanted in (0.2, 0.4, 0.4):
        with pytest.raises(KafkaException) as caught:
            calls.make(never.wait, 60.0)
        assert caught.value.args[0].code() == KafkaError._TIMED_OUT
        assert calls.seconds == wanted
    never.set()


def test_where_answers_are_slow_the_next_one_may_take_longer(calls: BoundedCalls) -> None:
    calls.make(lambda: time.sleep(0.05), 60.0)
    assert 0.2 <= calls.seconds <= 0.4
    calls.make(lambda: None, 60.0)
    assert calls.seconds == 0.1


def test_no_call_takes_longer_than_is_left(calls: BoundedCalls) -> None:
    never, began = threading.Event(), time.monotonic()
    calls.seconds = 60.0
    with pytest.raises(KafkaException):
        calls.make(never.wait, 0.05)
    assert time.monotonic() - began < 10
    never.set()


def test_another_error_says_nothing_about_waits(calls: BoundedCalls) -> None:
    def refused() -> None:
        raise KafkaException(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED))

    with pytest.raises(KafkaException):
        calls.make(refused, 60.0)
    assert calls.seconds == 0.1


class Hanging:
    """A client with a call that ends only when it is told to."""

    def __init__(self) -> None:
        self.ends = threading.Event()

    def call(self) -> None:
        self.ends.wait()


def test_a_client_stays_until_its_call_ends_and_no_longer(calls: BoundedCalls) -> None:
    """A producer can't be destroyed during a call. If none ever were, each would keep its threads and connections."""
    client = Hanging()
    ends, there = client.ends, weakref.ref(client)
    with pytest.raises(KafkaException):
        calls.make(client.call, 60.0)
    del client
    gc.collect()
    assert there() is not None
    ends.set()
    deadline = time.monotonic() + 10
    while there() is not None and time.monotonic() < deadline:
        time.sleep(0.01)
        gc.collect()
    assert there() is None
