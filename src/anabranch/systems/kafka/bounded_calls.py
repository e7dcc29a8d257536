"""Limits the time of a producer's calls that might otherwise never end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from confluent_kafka import KafkaError, KafkaException

__all__ = ["BoundedCalls"]

_SLOWER = 4.0
"""After a successful call, the time limit of the next call is this many times the duration of that call, but at least
the shortest and at most the longest limit. After a call that took too long, the limit is doubled."""


class BoundedCalls:
    """Makes calls that add offsets to a transaction. If a call takes too long, it is given up.

    When a broker restarts, the coordinator of the offsets' group may move to another broker. A call that adds offsets
    can then hang forever, although all brokers answer (librdkafka issues 5456 and 5511). So the time limit of a call is
    short, and is raised only if answers are slow.

    Attributes:
        seconds: how long the next call may take.
    """

    def __init__(self, shortest: float = 5.0, longest: float = 20.0) -> None:
        self.seconds = shortest
        self._shortest = shortest
        self._longest = longest

    def make(self, call: Callable[[], object], left: float) -> None:
        """Call a method of a producer, and wait for the call to end, for at most ``left`` seconds or :attr:`seconds`,
        whichever is shorter. If the call doesn't end in this time, raise KafkaException. The call then goes on in its
        thread, which keeps the producer until the call ends. (Destroying the producer earlier would wait for the call.)

        Args:
            call: a function that refers to the producer.
        """
        began = time.monotonic()
        try:
            _bounded(call, min(left, self.seconds))
        except KafkaException as error:
            if error.args[0].code() == KafkaError._TIMED_OUT:
                self.seconds = min(2 * self.seconds, self._longest)
            raise
        self.seconds = min(max(_SLOWER * (time.monotonic() - began), self._shortest), self._longest)


def _bounded(call: Callable[[], object], seconds: float) -> None:
    raised: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"no answer within {seconds:.0f} s"))
    if raised:
        raise raised[0]
