"""A real S3 server for tests: versitygw, which serves a folder, and so shows as files what is in its buckets."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Self

from anabranch import cache_dir
from tests.support.connections import accept
from tests.support.paths import ROOT

__all__ = ["BUCKET", "Proxy", "Server", "fetched", "jars", "serving"]

BUCKET = "lanes"
VERSION = "1.8.0"
HADOOP = "3.5.0"
_OF_OTHERS = {"kubernetes": "7.6.1"}
"""Versions of sets of jars that aren't Hadoop's."""
_PACKAGE = f"github.com/versity/versitygw/cmd/versitygw@v{VERSION}"
_KEY, _SECRET = "anabranch", "anabranch-secret"
_STARTS_WITHIN = 30.0
_PIECE = 1 << 16
_CONFLICT_BODY = (
    b'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>ConditionalRequestConflict</Code><Message>The conditional '
    b"request cannot succeed due to a conflicting operation against this resource.</Message></Error>"
)
_HEADERS = {"Content-Type": "application/xml", "Content-Length": len(_CONFLICT_BODY), "Connection": "close"}
_CONFLICT = (
    "\r\n".join(["HTTP/1.1 409 Conflict", *(f"{name}: {value}" for name, value in _HEADERS.items()), "", ""]).encode()
    + _CONFLICT_BODY
)
"""S3's answer if another request for the same object is under way."""
_CARRIED_OUT = 0.2
"""Seconds after which a call has been carried out."""


@dataclass(frozen=True)
class Server:
    """``folder`` has a folder for each bucket; ``log`` a line for each call."""

    folder: Path
    port: int
    log: Path

    def conf(self, port: int = 0) -> dict[str, str]:
        """Spark's settings for it. ``port``: of a proxy before it."""
        settings = {
            "endpoint": f"http://127.0.0.1:{port or self.port}",
            "endpoint.region": "us-east-1",
            "path.style.access": "true",
            "connection.ssl.enabled": "false",
            "access.key": _KEY,
            "secret.key": _SECRET,
        }
        return {
            "spark.driver.extraClassPath": ":".join(jars()),
            **{f"spark.hadoop.fs.s3a.{name}": settings[name] for name in settings},
        }

    def calls(self, part: str) -> int:
        """How many calls there were, so far, for paths with a part in them."""
        return sum(part in line for line in self.log.read_text().splitlines())

    @property
    def keys(self) -> dict[str, str]:
        """Where AWS's tools look for them: in the environment."""
        return {"AWS_ACCESS_KEY_ID": _KEY, "AWS_SECRET_ACCESS_KEY": _SECRET}

    def settings(self, port: int = 0) -> dict[str, object]:
        """Those of a workspace whose storage root is here."""
        return {"storage__root": f"s3a://{BUCKET}/root", "spark__conf": json.dumps(self.conf(port))}

    @property
    def root(self) -> Path:
        """The storage root, as files."""
        return self.folder / BUCKET / "root"


class Proxy:
    """Forwards calls to a server, and counts them by method. Inside ``with``.

    Args:
        latency: seconds that each call takes longer.
        loses: of every so many calls that write, one is carried out, and its answer lost with the connection; 0: none.
        conflicts: of every so many calls that write what must be new, one isn't carried out, as if another one had been
            under way; 0: none.
    """

    def __init__(self, to_port: int, latency: float = 0.0, loses: int = 0, conflicts: int = 0) -> None:
        self.calls: Counter[str] = Counter()
        self.refused = 0
        """How many calls were answered with a conflict."""
        self.latency = latency
        self._to, self._loses, self._conflicts = to_port, loses, conflicts
        self._exclusive = itertools.count(1)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=100)
        self.port: int = self._listener.getsockname()[1]

    def __enter__(self) -> Self:
        threading.Thread(target=accept, args=(self._listener, self._serve), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    def _serve(self, near: socket.socket) -> None:
        near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        far = socket.create_connection(("127.0.0.1", self._to))
        far.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        is_lost = threading.Event()
        threading.Thread(target=_pass_on, args=(far, near, is_lost), daemon=True).start()
        reader = near.makefile("rb")
        try:
            while head := self._head(reader):
                lines, left, loses = head
                if self._conflicts and _is_exclusive(lines) and next(self._exclusive) % self._conflicts == 0:
                    self.refused += 1
                    if b"100-continue" not in lines.lower():
                        reader.read(left)
                    near.sendall(_CONFLICT)
                    break
                if loses and not left:
                    is_lost.set()
                far.sendall(lines)
                while left and (piece := reader.read(min(left, _PIECE))):
                    left -= len(piece)
                    if loses and not left:
                        is_lost.set()
                    far.sendall(piece)
                if loses:
                    time.sleep(_CARRIED_OUT)
                    break
        except OSError:
            pass  # one of them has closed the connection
        finally:
            far.close()
            with suppress(OSError):
                near.shutdown(socket.SHUT_RDWR)
            near.close()

    def _head(self, reader: BinaryIO) -> tuple[bytes, int, bool] | None:
        """The next call's first lines, the size of what follows them, and whether its answer is to be lost; None: there
        is none."""
        lines, size, lost = [], 0, False
        while line := reader.readline():
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                size = int(value)
            if not lines:
                method = line.split()[0].decode()
                self.calls[method] += 1
                lost = bool(self._loses) and method == "PUT" and self.calls[method] % self._loses == 0
                time.sleep(self.latency)
            lines.append(line)
            if line == b"\r\n":
                return b"".join(lines), size, lost
        return None


def _is_exclusive(head: bytes) -> bool:
    return head.startswith(b"PUT ") and b"\r\nif-none-match:" in head.lower()


def _pass_on(source: socket.socket, target: socket.socket, is_lost: threading.Event) -> None:
    with suppress(OSError):
        while piece := source.recv(_PIECE):
            if not is_lost.is_set():
                target.sendall(piece)
    with suppress(OSError):
        target.close()


def jars() -> list[str]:
    """Hadoop's access to S3."""
    return [str(path) for path in fetched("s3")]


def fetched(what: str) -> list[Path]:
    """Jars that ``scripts/fetch-jars`` gets, when they are needed first: to look again takes a while."""
    kept = cache_dir.folder() / f"{what}-{_OF_OTHERS.get(what, HADOOP)}"
    if not (kept / "stamp").exists():
        subprocess.run([ROOT / "scripts" / "fetch-jars", what], check=True, capture_output=True)
    return sorted(kept.glob("*.jar"))


@contextmanager
def serving(folder: Path) -> Iterator[Server]:
    """A server with one bucket, whose data is in a folder."""
    data = folder / "s3"
    (data / BUCKET).mkdir(parents=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        server = Server(data, free.getsockname()[1], folder / "s3.log")
    command = [_program(), "--access", _KEY, "--secret", _SECRET, "--port", f"127.0.0.1:{server.port}"]
    with (folder / "s3.out").open("wb") as out:
        process = subprocess.Popen(
            [*command, "--access-log", str(server.log), "posix", str(data)], stdout=out, stderr=subprocess.STDOUT
        )
    try:
        _await(process, server.port)
        yield server
    finally:
        process.terminate()
        process.wait(30)


def _program() -> str:
    kept = cache_dir.folder() / f"versitygw-{VERSION}" / "versitygw"
    if not kept.exists():
        go = shutil.which("go")
        assert go, "tests on S3 need Go, to build their server: https://go.dev/dl"
        environment = {**os.environ, "GOBIN": str(kept.parent)}
        subprocess.run([go, "install", _PACKAGE], check=True, env=environment, capture_output=True)
    return str(kept)


def _await(process: subprocess.Popen[bytes], port: int) -> None:
    end = time.monotonic() + _STARTS_WITHIN
    while True:
        assert process.poll() is None, "the S3 server has ended"
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            assert time.monotonic() < end, "the S3 server doesn't answer"
            time.sleep(0.05)
