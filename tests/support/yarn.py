"""A real YARN for tests: a resource manager and node managers in one process, and their containers as processes below
it, with folders of their own."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.acceptance.harness import descendants, start_of
from tests.support import hadoop, hdfs
from tests.support.hdfs import Server

__all__ = ["NODES", "Yarn", "serving"]

NODES = 2
_SOURCE = Path(__file__).with_name("MiniYarn.java")
_EXECUTOR, _MASTER = b"YarnCoarseGrainedExecutorBackend", b"org.apache.spark.deploy.yarn.ExecutorLauncher"


class Yarn:
    """``hdfs``: the file system under it. Its folder of configuration is YARN's, too."""

    def __init__(self, servers: hadoop.Servers, under: Server) -> None:
        self._servers = servers
        self.hdfs = under

    def executors(self) -> list[int]:
        """The Java processes of Spark's executors."""
        return self._running(_EXECUTOR)

    def application_masters(self) -> list[int]:
        """The Java processes that ask for executors, one of each Spark application."""
        return self._running(_MASTER)

    def processes(self) -> list[int]:
        """Both kinds of them."""
        return [*self.application_masters(), *self.executors()]

    def kill(self, pid: int) -> None:
        """SIGKILL to a process and all below it."""
        for each in (pid, *descendants(pid)):
            with suppress(ProcessLookupError):  # it has ended by itself
                os.kill(each, signal.SIGKILL)

    def stop_node(self, number: int) -> None:
        """End a node manager, with all that runs under it. The others go on."""
        self._servers.do(f"stop-node {number}")

    def _running(self, kind: bytes) -> list[int]:
        below = descendants(self._servers.process.pid)
        return sorted(pid for pid, since in below.items() if _is(kind, pid) and start_of(pid) == since)


def _is(kind: bytes, pid: int) -> bool:
    """Whether a process is Java's, and of this kind; a shell that runs it has the same words in one argument."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return words[0].endswith(b"java") and any(word.endswith(kind) for word in words)


@contextmanager
def serving(folder: Path) -> Iterator[Yarn]:
    """One on an HDFS of its own, whose data is in a folder."""
    with hdfs.serving(folder / "hdfs") as under:
        words = (under.uri, str(under.conf), str(NODES))
        with hadoop.started(_SOURCE, ["hdfs", "yarn"], folder / "yarn", *words) as servers:
            assert servers.said == "up"
            yield Yarn(servers, under)
