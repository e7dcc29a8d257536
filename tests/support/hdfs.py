"""A real HDFS for tests: a name node and a data node in one process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support import hadoop

__all__ = ["Server", "serving"]

_SOURCE = Path(__file__).with_name("MiniHdfs.java")


class Server:
    """``uri``: with host and port; ``conf``: a folder for HADOOP_CONF_DIR, with which ``hdfs:///`` is this one."""

    def __init__(self, servers: hadoop.Servers, conf: Path) -> None:
        self._servers = servers
        self.uri = servers.said.rstrip("/")
        self.conf = conf
        conf.mkdir()
        (conf / "core-site.xml").write_text(
            f"<configuration><property><name>fs.defaultFS</name><value>{self.uri}</value></property>"
            "<property><name>dfs.replication</name><value>1</value></property></configuration>"
        )

    def safe_mode(self, *, on: bool) -> None:
        """Let it be read only."""
        self._servers.do(f"safe-mode {'on' if on else 'off'}")

    def name_node(self, *, on: bool) -> None:
        """Stop the name node, or start it again on its port."""
        self._servers.do(f"name {'start' if on else 'stop'}")

    def data_node(self, *, on: bool) -> None:
        """Stop the data node, or start it again."""
        self._servers.do(f"data {'start' if on else 'stop'}")

    def limit(self, path: str, size: int | None) -> None:
        """Let a folder have at most so many bytes, counted in whole blocks as they are written."""
        self._servers.do(f"quota {path} {-1 if size is None else size}")


@contextmanager
def serving(folder: Path) -> Iterator[Server]:
    """One whose data is in a folder."""
    with hadoop.started(_SOURCE, ["hdfs"], folder, str(folder / "hdfs")) as servers:
        yield Server(servers, folder / "hadoop-conf")
