"""A network between a container and its coordinator that can be cut: what is sent waits, and connections stay open."""

from __future__ import annotations

import socket
import threading
from types import TracebackType
from typing import Self

from tests.support.connections import accept

_PIECE = 65536


class Proxy:
    """Forwards what comes to ``url`` to a port of this machine. Inside ``with``."""

    def __init__(self, to_port: int) -> None:
        self._to = to_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._open = threading.Event()
        self._open.set()

    def __enter__(self) -> Self:
        threading.Thread(target=accept, args=(self._listener, self._connect), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.close()
        self._open.set()

    def cut(self) -> None:
        """From now on nothing gets through, in either direction."""
        self._open.clear()

    def heal(self) -> None:
        self._open.set()

    def _connect(self, near: socket.socket) -> None:
        self._open.wait()
        try:
            far = socket.create_connection(("127.0.0.1", self._to))
        except OSError:
            near.close()
            return
        for source, target in ((near, far), (far, near)):
            threading.Thread(target=self._forward, args=(source, target), daemon=True).start()

    def _forward(self, source: socket.socket, target: socket.socket) -> None:
        try:
            while piece := source.recv(_PIECE):
                self._open.wait()
                target.sendall(piece)
        except OSError:
            pass
        for each in (source, target):
            each.close()
