"""Makes sockets without a time limit, even if user code has set a limit for all new sockets with
``socket.setdefaulttimeout``.
"""

from __future__ import annotations

import os
import socket

__all__ = ["of_descriptor", "pair"]


def pair() -> tuple[socket.socket, socket.socket]:
    """Two connected sockets."""
    ours, theirs = socket.socketpair()
    for each in (ours, theirs):  # a process that inherits or receives one of them would get its mode, too
        each.settimeout(None)
    return ours, theirs


def of_descriptor(number: int) -> socket.socket:
    """The socket of a descriptor that another process has passed to this one. Programs that this process starts don't
    inherit the descriptor.
    """
    os.set_inheritable(number, False)
    found = socket.socket(fileno=number)
    found.settimeout(None)
    return found
