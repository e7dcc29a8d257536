"""Servers in one Java process, as of Hadoop: it says where it is, then carries out orders, a line at a time."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import pyspark

from tests.acceptance.processes import descendants, start_of
from tests.support.s3 import fetched

__all__ = ["JARS", "Servers", "kill", "started"]

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

    def running(self, main: str) -> list[int]:
        """The Java processes below it that run a class, by the end of its name."""
        below = descendants(self.process.pid)
        return sorted(pid for pid, since in below.items() if _runs(main, pid) and start_of(pid) == since)

    def _heard(self) -> str:
        lines: IO[str] | None = self.process.stdout
        assert lines is not None
        late = threading.Timer(_PATIENCE, self.process.kill)
        late.start()
        try:
            line = next((line for line in lines if line.startswith("> ")), "")
        finally:
            late.cancel()
        assert line, f"the servers have ended:\n{self._log.read_text()[-4000:]}"
        return line.removeprefix("> ").strip()


def _runs(main: str, pid: int) -> bool:
    """Whether a process is Java's, of this class; a shell that starts it has the same words in one argument."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except OSError:
        return False
    return words[0].endswith("java") and any(word.endswith(main) for word in words)


def kill(pid: int) -> None:
    """SIGKILL to a process and all below it."""
    for each in (pid, *descendants(pid)):
        with suppress(ProcessLookupError):  # it has ended by itself
            os.kill(each, signal.SIGKILL)


@contextmanager
def started(source: Path, jars: Sequence[str], folder: Path, *words: str) -> Iterator[Servers]:
    """Run a Java file in a folder. ``jars``: which it needs besides Spark's, by the names that ``fetch-jars`` has for
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
