"""Sends messages over local sockets between a Python worker and the processes of the module ``isolation_host``."""

from __future__ import annotations

import pickle
import select
import socket
import struct
import time
from typing import Any

__all__ = ["Closed", "OutOfTime", "receive", "send"]

_HEAD = struct.Struct("<Q")
_PIECE = 2**20


class Closed(Exception):
    """The other process has ended."""


class OutOfTime(Exception):
    """The other process has sent or read nothing within the time limit."""


def send(to: socket.socket, message: object, seconds: float | None = None) -> None:
    """Send a message. Waits up to ``seconds`` (None for no limit) until the other process has read enough of the
    message for the rest to fit into the socket's buffer.

    Raises:
        Closed: the other process has ended.
        OutOfTime: the other process hasn't read enough of the message within ``seconds``.
    """
    body = pickle.dumps(message, protocol=5)
    try:
        to.settimeout(seconds)
        to.sendall(_HEAD.pack(len(body)))
        to.sendall(body)
        to.settimeout(None)
    except TimeoutError:
        raise OutOfTime from None
    except OSError:
        raise Closed from None


def receive(source: socket.socket, seconds: float | None = None) -> Any:
    """The next message. ``seconds`` says how long to wait for the beginning of the message; None for no limit.

    Raises:
        Closed: the other process ended before it had sent a complete message.
        OutOfTime: nothing arrived within ``seconds``.
    """
    if seconds is not None and not _is_readable(source, seconds):
        raise OutOfTime
    (length,) = _HEAD.unpack(_bytes(source, _HEAD.size))
    return pickle.loads(_bytes(source, length))


def _is_readable(source: socket.socket, seconds: float) -> bool:
    poller = select.poll()  # select can't handle descriptors above 1023
    poller.register(source, select.POLLIN)
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        if poller.poll(left * 1000):
            return True
    return bool(poller.poll(0))


def _bytes(source: socket.socket, length: int) -> bytearray:
    found = bytearray(length)
    view, got = memoryview(found), 0
    while got < length:
        try:
            count = source.recv_into(view[got:], min(length - got, _PIECE))
        except OSError:
            raise Closed from None
        if not count:
            raise Closed
        got += count
    return found
