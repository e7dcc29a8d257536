"""How long a process waits for an answer that may never come."""

from __future__ import annotations

import threading
import time
from typing import cast

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from anabranch.systems.kafka.bounded_calls import BoundedCalls

PRODUCER = cast(Producer, object())


@pytest.fixture
def calls() -> BoundedCalls:
    return BoundedCalls(shortest=0.1, longest=0.4)


def test_a_call_that_hangs_is_given_up_soon_and_each_further_one_later(calls: BoundedCalls) -> None:
    never = threading.Event()
    for wanted in (0.2, 0.4, 0.4):
        with pytest.raises(KafkaException) as caught:
            calls.make(never.wait, 60.0, PRODUCER)
        assert caught.value.args[0].code() == KafkaError._TIMED_OUT
        assert calls.seconds == wanted
    never.set()


def test_where_answers_are_slow_the_next_one_may_take_longer(calls: BoundedCalls) -> None:
    calls.make(lambda: time.sleep(0.05), 60.0, PRODUCER)
    assert 0.2 <= calls.seconds <= 0.4
    calls.make(lambda: None, 60.0, PRODUCER)
    assert calls.seconds == 0.1


def test_no_call_takes_longer_than_is_left(calls: BoundedCalls) -> None:
    never, began = threading.Event(), time.monotonic()
    calls.seconds = 60.0
    with pytest.raises(KafkaException):
        calls.make(never.wait, 0.05, PRODUCER)
    assert time.monotonic() - began < 10
    never.set()


def test_another_error_says_nothing_about_waits(calls: BoundedCalls) -> None:
    def refused() -> None:
        raise KafkaException(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED))

    with pytest.raises(KafkaException):
        calls.make(refused, 60.0, PRODUCER)
    assert calls.seconds == 0.1
