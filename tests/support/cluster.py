"""A standalone cluster of Spark's: a master and its workers, as processes on loopback, of the PySpark that is here."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pyspark

from tests.acceptance.processes import descendants, start_of
from tests.support import jvm

ADDRESS = "127.0.0.1"
PATIENCE = 200.0
_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
_KEPT = ("PATH", "JAVA_HOME", "HOME", "TMPDIR", "LANG", "LC_ALL")


@dataclass
class Daemon:
    """The master or a worker. What it prints is in ``folder/daemon.log``."""

    popen: subprocess.Popen[bytes]
    folder: Path

    def kill(self) -> list[int]:
        """SIGKILL to it and all below it, executors and their Python workers, at once: as if its machine were gone."""
        found: dict[int, str] = {}
        while left := {pid: since for pid, since in self._all().items() if pid not in found}:
            for pid in left:  # stopped, none of them can start another
                _signal(pid, signal.SIGSTOP)
            found |= left
        for pid in found:
            _signal(pid, signal.SIGKILL)
        self.popen.wait()
        end = time.monotonic() + PATIENCE
        while any(start_of(pid) == since for pid, since in found.items()):
            assert time.monotonic() < end, "killed processes are still there"
            time.sleep(0.01)
        return sorted(found)

    def _all(self) -> dict[int, str]:
        since = start_of(self.popen.pid)
        return {} if since is None else {self.popen.pid: since, **descendants(self.popen.pid)}


@dataclass
class Cluster:
    """Where the master is, and its workers."""

    folder: Path
    port: int
    ui: int
    master: Daemon
    workers: list[Daemon] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"spark://{ADDRESS}:{self.port}"

    def state(self) -> Any:
        """What the master says: ``workers``, ``activeapps`` …"""
        with urlopen(f"http://{ADDRESS}:{self.ui}/json/", timeout=PATIENCE) as answer:
            return json.load(answer)

    def executors(self, worker: Daemon) -> list[int]:
        """The processes of a worker's executors."""
        return [pid for pid in descendants(worker.popen.pid) if _is_executor(pid)]

    def until(self, what: str, reached: Any) -> None:
        """Wait until the master's state is so."""
        end = time.monotonic() + PATIENCE
        while not reached(self.state()):
            assert time.monotonic() < end, f"no {what} within {PATIENCE:g} s: {self.state()}"
            time.sleep(0.1)


@contextmanager
def started(folder: Path, workers: int = 2, cores: int = 1, memory: str = "1g") -> Iterator[Cluster]:
    """A master and workers, each with so many cores. They know nothing of this process's Python: no ``PYTHONPATH``."""
    daemons: list[Daemon] = []

    def start(name: str, *words: str) -> Daemon:
        here = folder / name
        here.mkdir(parents=True)
        env = {name: os.environ[name] for name in _KEPT if name in os.environ}
        env |= {"SPARK_LOCAL_IP": ADDRESS, "SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": jvm.COMPILER}
        with open(here / "daemon.log", "wb") as log:
            popen = subprocess.Popen([_CLASS, *words], cwd=here, env=env, stdout=log, stderr=log)
        daemons.append(Daemon(popen, here))
        return daemons[-1]

    try:
        port, ui = unused_port(), unused_port()
        at = ("--host", ADDRESS, "--port")
        master = start("master", "org.apache.spark.deploy.master.Master", *at, str(port), "--webui-port", str(ui))
        made = Cluster(folder, port, ui, master)
        _until_it_answers(made)
        for number in range(workers):
            words = (*at, "0", "--webui-port", "0", "--cores", str(cores), "--memory", memory, "--work-dir", "work")
            made.workers.append(start(f"worker-{number}", "org.apache.spark.deploy.worker.Worker", *words, made.url))
        made.until("workers", lambda state: state["aliveworkers"] == workers)
        yield made
    finally:
        for daemon in reversed(daemons):
            daemon.kill()


def unused_port() -> int:
    with socket.create_server((ADDRESS, 0)) as free:
        port: int = free.getsockname()[1]
    return port


def _until_it_answers(made: Cluster) -> None:
    end = time.monotonic() + PATIENCE
    while True:
        try:
            made.state()
            return
        except OSError:  # nothing listens, or the page isn't there yet
            said = (made.master.folder / "daemon.log").read_text()
            assert made.master.popen.poll() is None, said
            assert time.monotonic() < end, said
            time.sleep(0.05)


def _signal(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):  # it has ended by itself
        os.kill(pid, number)


def _is_executor(pid: int) -> bool:
    try:
        return b"CoarseGrainedExecutorBackend" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
