"""Distant storage, as a WebHDFS server: it delays each request, and limits the speed of each connection."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

__all__ = ["Far", "served"]

_CHUNK = 1 << 18


@dataclass
class Far:
    """Distant storage.

    Attributes:
        folder: the local folder with the data.
        latency: the delay of each request, in seconds.
        speed: the bytes per second of a connection.
        uri: the URI of the storage's root.
        requests: the number of requests since the start, by operation.
        moved: the number of bytes read and written since the start.
    """

    folder: Path
    latency: float
    speed: float
    uri: str = ""
    requests: Counter[str] = field(default_factory=Counter)
    moved: Counter[str] = field(default_factory=Counter)


@contextmanager
def served(folder: Path, latency: float, speed: float) -> Iterator[Far]:
    """Serve the files of a folder, including files that are added later."""
    far = Far(folder, latency, speed)

    class Handler(_Handler):
        storage = far

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    far.uri = f"webhdfs://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, name="far storage", daemon=True).start()
    try:
        yield far
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    storage: Far

    def log_message(self, *_: Any) -> None:
        """Don't log requests."""

    def do_GET(self) -> None:
        self._answer()

    def do_PUT(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_DELETE(self) -> None:
        self._answer()

    def _answer(self) -> None:
        url = urlsplit(self.path)
        given = {name.lower(): values[0] for name, values in parse_qs(url.query).items()}
        name = unquote(url.path).removeprefix("/webhdfs/v1")
        path = self.storage.folder / name.lstrip("/")
        what = given["op"].lower()
        self.storage.requests[what] += 1
        if "here" not in given:
            time.sleep(self.storage.latency)
        try:
            getattr(self, f"_{what}")(path, given)
        except FileNotFoundError as error:
            self._fail(404, "java.io.FileNotFoundException", str(error))
        except FileExistsError as error:
            self._fail(403, "org.apache.hadoop.fs.FileAlreadyExistsException", str(error))
        except OSError as error:
            self._fail(403, "java.io.IOException", str(error))

    def _fail(self, status: int, kind: str, why: str) -> None:
        name = kind.rpartition(".")[2]
        self._say({"RemoteException": {"exception": name, "javaClassName": kind, "message": why}}, status)

    def _say(self, found: Any, status: int = 200) -> None:
        body = json.dumps(found).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))  # no type: Spark's Hadoop lacks the code to check it
        self.end_headers()
        self.wfile.write(body)

    def _elsewhere(self) -> None:
        """Redirect the client to another address for the data, as a name node does. The same server answers there."""
        self.send_response(307)
        self.send_header("Location", f"http://127.0.0.1:{self.server.server_address[1]}{self.path}&here=true")  # type: ignore[misc]
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _open(self, path: Path, given: dict[str, str]) -> None:
        size = path.stat().st_size
        if "here" not in given:
            self._elsewhere()
            return
        first = int(given.get("offset", 0))
        left = min(size - first, int(given.get("length", size)))
        self.send_response(200)
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Content-Length", str(left))
        self.end_headers()
        with path.open("rb") as file:
            file.seek(first)
            while left > 0:
                chunk = file.read(min(_CHUNK, left))
                self._pass("read", len(chunk))
                self.wfile.write(chunk)
                left -= len(chunk)

    def _create(self, path: Path, given: dict[str, str]) -> None:
        if "here" not in given:
            self._elsewhere()
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb" if given.get("overwrite", "true") == "true" else "xb") as file:
            for chunk in self._body():
                self._pass("written", len(chunk))
                file.write(chunk)
        self.send_response(201)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _body(self) -> Iterator[bytes]:
        if self.headers.get("Transfer-Encoding") != "chunked":
            left = int(self.headers.get("Content-Length", 0))
            while left > 0:
                chunk = self.rfile.read(min(_CHUNK, left))
                left -= len(chunk)
                yield chunk
            return
        while size := int(self.rfile.readline().split(b";")[0], 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()

    def _pass(self, how: str, size: int) -> None:
        self.storage.moved[how] += size
        time.sleep(size / self.storage.speed)

    def _status(self, path: Path, name: str = "") -> dict[str, Any]:
        about = path.stat()
        return {
            "pathSuffix": name,
            "type": "DIRECTORY" if path.is_dir() else "FILE",
            "length": 0 if path.is_dir() else about.st_size,
            "owner": "far",
            "group": "far",
            "permission": "755",
            "accessTime": 0,
            "modificationTime": round(about.st_mtime * 1000),
            "blockSize": 1 << 27,
            "replication": 1,
            "fileId": about.st_ino,
            "childrenNum": 0,
            "storagePolicy": 0,
        }

    def _getfilestatus(self, path: Path, _: dict[str, str]) -> None:
        self._say({"FileStatus": self._status(path)})

    def _liststatus(self, path: Path, _: dict[str, str]) -> None:
        found = [self._status(path)] if path.is_file() else []
        for each in [] if found else sorted(path.iterdir()):
            try:
                found.append(self._status(each, each.name))
            except FileNotFoundError:
                continue  # removed meanwhile
        self._say({"FileStatuses": {"FileStatus": found}})

    def _mkdirs(self, path: Path, _: dict[str, str]) -> None:
        path.mkdir(parents=True, exist_ok=True)
        self._say({"boolean": True})

    def _rename(self, path: Path, given: dict[str, str]) -> None:
        target = self.storage.folder / given["destination"].lstrip("/")
        path.stat()
        told = "renameoptions" in given
        if target.exists() and given.get("renameoptions", "").upper() != "OVERWRITE":
            if told:
                raise FileExistsError(str(target))
            self._say({"boolean": False})
            return
        path.replace(target)
        if told:
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()
        else:
            self._say({"boolean": True})

    def _delete(self, path: Path, given: dict[str, str]) -> None:
        there = path.exists()
        if path.is_dir():
            shutil.rmtree(path) if given.get("recursive") == "true" else path.rmdir()
        else:
            path.unlink(missing_ok=True)
        self._say({"boolean": there})

    def _setpermission(self, _path: Path, _: dict[str, str]) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    _settimes = _setpermission

    def _gethomedirectory(self, _path: Path, _: dict[str, str]) -> None:
        self._say({"Path": "/user/far"})
