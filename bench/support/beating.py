"""Containers that only send heartbeats: connections to a coordinator in one thread, with request bodies that are
made beforehand.
"""

from __future__ import annotations

import asyncio
import re
import time
from dataclasses import dataclass, field

import msgspec

from anabranch.model.document import compact
from anabranch.protocol.lane_report import LanePhase, LaneReport

_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_REVISION = re.compile(rb'"revision":(-?\d+)')
_POSITIONS = b'"positions":{}'
VARIANTS = 8
TOKEN = "of-the-bench"
"""The token that the coordinator requires."""


class Connection(asyncio.Protocol):
    """A persistent connection, which sends one request at a time."""

    def __init__(self) -> None:
        self._read = bytearray()
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(exc or ConnectionError("the coordinator hung up"))

    def data_received(self, data: bytes) -> None:
        self._read += data
        end = self._read.find(b"\r\n\r\n")
        if end < 0 or self._answer is None:
            return
        found = _LENGTH.search(self._read, 0, end)
        whole = end + 4 + (int(found[1]) if found else 0)
        if len(self._read) >= whole:
            status, body = int(self._read[9:12]), bytes(self._read[end + 4 : whole])
            del self._read[:whole]
            if not self._answer.done():
                self._answer.set_result((status, body))

    async def ask(self, path: str, *body: bytes) -> bytes:
        """POST a body, and return the answer's body. Raises AssertionError unless the status is 200."""
        assert self._transport is not None
        self._answer = asyncio.get_running_loop().create_future()
        length = sum(map(len, body))
        head = (
            f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
        )
        self._transport.writelines([head.encode(), *body])
        status, answer = await self._answer
        assert status == 200, answer[:300]
        return answer

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


def positions(count: int) -> list[bytes]:
    """Several variants of the positions of ``count`` SSPs, as JSON."""
    made = []
    for variant in range(VARIANTS):
        at = {f"kafka/records/{number}": 10_000_000 + number + variant for number in range(count)}
        made.append(b'"positions":' + msgspec.json.encode(at))
    return made


@dataclass
class Container:
    """A process that has a seat, with one connection for usual heartbeats, and one for those that contain news."""

    id: str
    epoch: int
    connection: Connection
    news: Connection
    lane: str
    positions: list[bytes]
    number: int = 0
    seen: int = -1
    attempt: int = 1
    _around: tuple[bytes, bytes] = field(default=(b"", b""), repr=False)

    def __post_init__(self) -> None:
        self.path = f"/containers/{self.id}/heartbeat?wait="
        self._cut()

    def _cut(self) -> None:
        report = compact(
            LaneReport(lane=self.lane, phase=LanePhase.RUNNING).changed(folder_epoch=self.epoch, number=self.attempt)
        )
        before, _, after = report.removeprefix(b'{"version":1,').partition(_POSITIONS)
        self._around = b"{" + before, after + b"]}"

    async def beat(self, wait: float) -> float:
        """Send a heartbeat. Returns how long the answer took, in seconds, without the wait that the heartbeat
        requested.
        """
        return await self._beat(self.connection, wait)

    async def tell(self) -> float:
        """Send a heartbeat with something that the coordinator stores. Returns how long the answer took, in seconds."""
        self.attempt += 1
        self._cut()
        return await self._beat(self.news, 0.0)

    async def _beat(self, connection: Connection, wait: float) -> float:
        self.number += 1
        head = b'{"version":1,"container":"%b","epoch":%d,"number":%d,"seen":%d,"lanes":[' % (
            self.id.encode(),
            self.epoch,
            self.number,
            seen := self.seen,
        )
        before, after = self._around
        body = head, before, self.positions[self.number % VARIANTS], after
        begun = time.perf_counter()
        answer = await connection.ask(f"{self.path}{wait:g}", *body)
        took = time.perf_counter() - begun
        assert b'"alive":true' in answer[:200], answer[:300]
        found = _REVISION.search(answer)
        revision = int(found[1]) if found else -1
        waited = wait if revision == seen else 0.0
        self.seen = revision
        return took - waited
