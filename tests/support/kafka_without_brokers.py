"""A server that speaks enough of Kafka's protocol to answer as a broker does that knows no broker, not even itself."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import BinaryIO

_METADATA, _API_VERSIONS = 3, 18
_VERSIONS = [(_METADATA, 0, 4), (_API_VERSIONS, 0, 0)]
_UNSUPPORTED_VERSION = 35


class Server:
    """Answers requests for metadata: the first ``named`` ones with itself as the only broker, the next ``nameless``
    ones without any broker, and those after them with itself again. Each answer has these topics, without partitions.
    """

    def __init__(self, named: int, nameless: int, topics: Sequence[str] = ()) -> None:
        self._named, self._nameless, self._answered = named, nameless, 0
        told = (struct.pack(">hh", 0, len(name)) + name.encode() + struct.pack(">bi", 0, 0) for name in topics)
        self._topics = struct.pack(">i", len(topics)) + b"".join(told)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._socket.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._socket.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(ConnectionError), connection, connection.makefile("rb") as requests:
            while (answer := self._answer(requests)) is not None:
                connection.sendall(struct.pack(">i", len(answer)) + answer)

    def _answer(self, requests: BinaryIO) -> bytes | None:
        if len(size := requests.read(4)) < 4:
            return None
        kind, version, correlation = struct.unpack(">hhi", requests.read(*struct.unpack(">i", size))[:8])
        if kind == _API_VERSIONS:
            versions = b"".join(struct.pack(">hhh", *each) for each in _VERSIONS)
            error = _UNSUPPORTED_VERSION if version else 0
            return struct.pack(">ihi", correlation, error, len(_VERSIONS)) + versions
        return struct.pack(">i", correlation) + self._metadata()

    def _metadata(self) -> bytes:
        self._answered += 1
        throttled, topics, cluster = struct.pack(">i", 0), self._topics, struct.pack(">h", 1) + b"c"
        if self._named < self._answered <= self._named + self._nameless:
            return throttled + struct.pack(">i", 0) + cluster + struct.pack(">i", -1) + topics
        host, no_rack = b"127.0.0.1", struct.pack(">h", -1)
        broker = struct.pack(">iih", 1, 0, len(host)) + host + struct.pack(">i", self.port) + no_rack
        return throttled + broker + cluster + struct.pack(">i", 0) + topics
