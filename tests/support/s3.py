"""A real S3 server for tests: versitygw, which serves a folder, and so shows as files what is in its buckets."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from anabranch import cache_dir
from tests.support.paths import ROOT

__all__ = ["BUCKET", "Server", "jars", "serving"]

BUCKET = "lanes"
VERSION = "1.8.0"
_PACKAGE = f"github.com/versity/versitygw/cmd/versitygw@v{VERSION}"
_KEY, _SECRET = "anabranch", "anabranch-secret"
_STARTS_WITHIN = 30.0


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
        return {"spark.jars": ",".join(jars()), **{f"spark.hadoop.fs.s3a.{name}": settings[name] for name in settings}}

    def settings(self, port: int = 0) -> dict[str, object]:
        """Those of a workspace whose storage root is here."""
        return {"storage__root": f"s3a://{BUCKET}/root", "spark__conf": json.dumps(self.conf(port))}

    @property
    def root(self) -> Path:
        """The storage root, as files."""
        return self.folder / BUCKET / "root"


def jars() -> list[str]:
    """Hadoop's access to S3."""
    got = subprocess.run([ROOT / "scripts" / "fetch-jars", "s3"], check=True, capture_output=True, text=True)
    return sorted(str(path) for path in Path(got.stdout.strip()).glob("*.jar"))


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
