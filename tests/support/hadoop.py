"""A process of Hadoop's servers, which carries out orders: it says where it is, then does a line at a time."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import pyspark

from tests.support.s3 import fetched

__all__ = ["JARS", "Servers", "started"]

JARS = Path(pyspark.__path__[0]) / "jars"
"""Spark's own, with Hadoop's client."""
_PATIENCE = 120.0


class Servers:
    """``said``: what the process said when its servers were up."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self.process = process
        self._log = log
        self.said = self._heard()

    def do(self, order: str) -> None:
        """Let an order be carried out."""
        to = self.process.stdin
        assert to is not None
        to.write(f"{order}\n")
        to.flush()
        assert self._heard() == "done"

    def _heard(self) -> str:
        lines: IO[str] | None = self.process.stdout
        assert lines is not None
        late = threading.Timer(_PATIENCE, self.process.kill)
        late.start()
        try:
            line = next((line for line in lines if line.startswith("> ")), "")
        finally:
            late.cancel()
        assert line, f"Hadoop's servers have ended:\n{self._log.read_text()[-4000:]}"
        return line.removeprefix("> ").strip()


@contextmanager
def started(source: Path, jars: Sequence[str], folder: Path, *words: str) -> Iterator[Servers]:
    """Run a Java file in a folder. ``jars``: the names of those that it needs besides Spark's, as ``fetch-jars`` has
    them."""
    folder.mkdir(parents=True, exist_ok=True)
    path = [f"{JARS}/*", *(str(jar) for name in jars for jar in fetched(name))]
    command = ["java", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-cp", ":".join(path), str(source), *words]
    log = folder / f"{source.stem}.out"
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=out, text=True
        )
    try:
        yield Servers(process, log)
    finally:
        with suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=20)
        process.kill()
        process.wait()
