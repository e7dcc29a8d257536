"""A real YARN for tests: a resource manager and node managers in one process, and their containers as processes below
it, with folders of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support import hadoop, hdfs
from tests.support.hdfs import Server

__all__ = ["NODES", "Yarn", "serving"]

NODES = 2
_SOURCE = Path(__file__).with_name("MiniYarn.java")


class Yarn:
    """``hdfs``: the file system under it. Its folder of configuration is YARN's, too."""

    def __init__(self, servers: hadoop.Servers, under: Server) -> None:
        self._servers = servers
        self.hdfs = under

    def executors(self) -> list[int]:
        """The Java processes of Spark's executors."""
        return self._servers.running("YarnCoarseGrainedExecutorBackend")

    def application_masters(self) -> list[int]:
        """The Java processes that ask for executors, one of each Spark application."""
        return self._servers.running("deploy.yarn.ExecutorLauncher")

    def processes(self) -> list[int]:
        """Both kinds of them."""
        return [*self.application_masters(), *self.executors()]

    def stop_node(self, number: int) -> None:
        """End a node manager, with all that runs under it. The others go on."""
        self._servers.do(f"stop-node {number}")


@contextmanager
def serving(folder: Path) -> Iterator[Yarn]:
    """One on an HDFS of its own, whose data is in a folder."""
    with hdfs.serving(folder / "hdfs") as under:
        words = (under.uri, str(under.conf), str(NODES))
        with hadoop.started(_SOURCE, ["hdfs", "yarn"], folder / "yarn", *words) as servers:
            assert servers.said == "up"
            yield Yarn(servers, under)
