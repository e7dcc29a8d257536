"""Sockets of ours, in a process whose user code has set a time limit for all new ones."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from anabranch import sockets


@pytest.fixture(autouse=True)
def limited() -> Iterator[None]:
    socket.setdefaulttimeout(1.0)
    yield
    socket.setdefaulttimeout(None)


def test_both_sockets_of_a_pair_wait_without_limit() -> None:
    for each in sockets.pair():
        with each:
            assert each.gettimeout() is None
            assert os.get_blocking(each.fileno())


def test_a_descriptor_that_was_passed_here_waits_without_limit_and_stays_here() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        os.set_inheritable(theirs.fileno(), True)
        with sockets.of_descriptor(theirs.detach()) as found:
            assert found.gettimeout() is None
            assert os.get_blocking(found.fileno())
            assert not found.get_inheritable()
