"""Messages between a worker and the processes of user code."""

from __future__ import annotations

import threading

import pytest

from anabranch import sockets
from anabranch.spark.functions import messages

LARGE = b"x" * 2**24
"""More than a socket's buffer holds."""


def test_a_large_message_arrives_within_its_time() -> None:
    ours, theirs = sockets.pair()
    with ours, theirs:
        sending = threading.Thread(target=messages.send, args=(ours, LARGE, 60.0))
        sending.start()
        assert messages.receive(theirs) == LARGE
        sending.join()
        assert ours.gettimeout() is None  # or an answer would have to arrive within that time


def test_sending_to_a_process_that_does_not_read_ends_in_time() -> None:
    ours, theirs = sockets.pair()
    with ours, theirs, pytest.raises(messages.OutOfTime):
        messages.send(ours, LARGE, 0.1)


def test_sending_to_a_process_that_has_ended_ends_at_once() -> None:
    ours, theirs = sockets.pair()
    theirs.close()
    with ours, pytest.raises(messages.Closed):
        messages.send(ours, LARGE, 60.0)
