"""A coordinator in a process of its own, and the requests that many containers and pages send to it."""

from __future__ import annotations

import asyncio
import itertools
import re
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from anabranch.model.document import compact
from anabranch.protocol.container import Heartbeat
from bench.support.beating import TOKEN

PERIOD = 2.0
"""Seconds between two heartbeats of a container, and between two updates of a page."""
PAGES = 20
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_ETAG = re.compile(rb"etag: *(\S+)", re.IGNORECASE)


class Served:
    """The coordinator's process. Call :meth:`tick` about once a second.

    Args:
        command: starts the process, which prints its URL, and ends when its standard input is closed.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()
        if not self.url:
            raise SystemExit("the coordinator didn't start: see above")

    def tick(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / 100

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)


class Connection:
    """Sends requests one after another, with as little CPU time as possible, because the coordinator is measured on the
    same machine.
    """

    def __init__(self, url: str) -> None:
        self._host, port = url.removeprefix("http://").split(":")
        self._port = int(port)
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, method: str, path: str, body: bytes = b"", more: str = "") -> str:
        """Send a request, and return the ETag of the answer. Raises AssertionError unless the status is 200 or 304."""
        if self._streams is None:
            self._streams = await asyncio.open_connection(self._host, self._port)
        reader, writer = self._streams
        kind = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n" if body else ""
        head = f"{method} {path} HTTP/1.1\r\nHost: {self._host}:{self._port}\r\nAuthorization: Bearer {TOKEN}\r\n"
        writer.write(f"{head}Accept-Encoding: gzip\r\n{kind}{more}\r\n".encode() + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        length = _LENGTH.search(answer)
        content = await reader.readexactly(int(length[1])) if length and b" 304 " not in answer[:15] else b""
        assert answer[9:12] in (b"200", b"304"), answer + content[:300]
        etag = _ETAG.search(answer)
        return etag[1].decode() if etag else ""

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()


class Load:
    """Containers that send heartbeats every two seconds, and simulated pages that send the same requests as pages in
    Chromium.
    """

    def __init__(self, served: Served, beats: Sequence[tuple[str, Heartbeat]]) -> None:
        self._served = served
        self._beats = beats
        self._number = itertools.count(1_000)

    async def run(self, seconds: float, asked: Sequence[Sequence[str]] = ()) -> list[float]:
        """Send requests for ``seconds``. Returns the latencies of heartbeats in ms. ``asked`` contains, for each kind
        of page, the paths that it requests every two seconds; the simulated pages are of these kinds in turn.
        """
        latencies: list[float] = []
        end = time.perf_counter() + seconds
        beats = [self._beat(place, end, latencies) for place in range(len(self._beats))]
        pages = [self._page(place, asked[place % len(asked)], end) for place in range(PAGES if asked else 0)]
        await asyncio.gather(self._tick(end), *beats, *pages)
        return latencies

    async def _tick(self, end: float) -> None:
        while time.perf_counter() < end:
            self._served.tick()
            await asyncio.sleep(1.0)

    async def _beat(self, place: int, end: float, latencies: list[float]) -> None:
        path, beat = self._beats[place]
        due = time.perf_counter() + place * PERIOD / len(self._beats)
        connection = Connection(self._served.url)
        while due < end:
            number = next(self._number)
            lanes = tuple(each.changed(batch=number) for each in beat.lanes)
            body = compact(msgspec.structs.replace(beat, number=number, lanes=lanes))
            await asyncio.sleep(due - time.perf_counter())
            begun = time.perf_counter()
            await connection.ask("POST", path, body)
            latencies.append(1000 * (time.perf_counter() - begun))
            due += PERIOD
        connection.close()

    async def _page(self, place: int, asked: Sequence[str], end: float) -> None:
        etags: dict[str, str] = {}
        connection = Connection(self._served.url)
        due = time.perf_counter() + place * PERIOD / PAGES
        while due < end:
            await asyncio.sleep(due - time.perf_counter())
            for path in asked:
                known = f"If-None-Match: {etags[path]}\r\n" if etags.get(path) else ""
                etags[path] = await connection.ask("GET", path, more=known) or etags.get(path, "")
            due += PERIOD
        connection.close()
