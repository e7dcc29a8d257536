"""Connections that a proxy of a test accepts."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable

__all__ = ["accept"]


def accept(listener: socket.socket, serve: Callable[[socket.socket], object]) -> None:
    """Call ``serve`` with each connection, in a thread of its own, until the listener is closed."""
    while True:
        try:
            near, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=serve, args=(near,), daemon=True).start()
