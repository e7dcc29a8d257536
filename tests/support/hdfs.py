"""A real HDFS for tests: a name node and a data node in one process."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import pyspark

from tests.support.s3 import fetched

__all__ = ["Server", "serving"]

_SOURCE = Path(__file__).with_name("MiniHdfs.java")
_PATIENCE = 120.0


class Server:
    """``uri``: with host and port; ``conf``: a folder for HADOOP_CONF_DIR, with which ``hdfs:///`` is this one."""

    def __init__(self, process: subprocess.Popen[str], conf: Path) -> None:
        self._process = process
        self.uri = self._heard()
        self.conf = conf
        conf.mkdir()
        (conf / "core-site.xml").write_text(
            f"<configuration><property><name>fs.defaultFS</name><value>{self.uri}</value></property>"
            "<property><name>dfs.replication</name><value>1</value></property></configuration>"
        )

    def safe_mode(self, *, on: bool) -> None:
        """Let it be read only."""
        self._do(f"safe-mode {'on' if on else 'off'}")

    def restart(self) -> None:
        """Restart the name node."""
        self._do("restart")

    def limit(self, path: str, size: int | None) -> None:
        """Let a folder have at most so many bytes, counted in whole blocks as they are written."""
        self._do(f"quota {path} {-1 if size is None else size}")

    def _do(self, order: str) -> None:
        said = self._process.stdin
        assert said is not None
        said.write(f"{order}\n")
        said.flush()
        assert self._heard() == "done"

    def _heard(self) -> str:
        lines: IO[str] | None = self._process.stdout
        assert lines is not None
        late = threading.Timer(_PATIENCE, self._process.kill)
        late.start()
        try:
            line = next((line for line in lines if line.startswith("> ")), "")
        finally:
            late.cancel()
        assert line, "the HDFS has ended"
        return line.removeprefix("> ").strip().rstrip("/")


@contextmanager
def serving(folder: Path) -> Iterator[Server]:
    """One whose data is in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    jars = [f"{Path(pyspark.__path__[0]) / 'jars'}/*", *map(str, fetched("hdfs"))]
    command = ["java", "-Xmx384m", "-XX:TieredStopAtLevel=1", "-cp", ":".join(jars)]
    with (folder / "hdfs.out").open("wb") as out:
        process = subprocess.Popen(
            [*command, str(_SOURCE), str(folder / "hdfs")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=out,
            text=True,
        )
    try:
        yield Server(process, folder / "hadoop-conf")
    finally:
        with suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=20)
        process.kill()
        process.wait()
