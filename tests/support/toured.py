"""The tour as a process, in a folder for temporary files of its own, and what it leaves behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from tests.acceptance.harness import ANABRANCH

__all__ = ["Tour"]

_ENDS_WITHIN = 60.0


def _heed_signals() -> None:
    """As in a terminal, though the tests may have been started where signals are ignored (nohup, a shell's ``&``)."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


class Tour:
    """``anabranch demo``, without a terminal, on 80 columns.

    Args:
        folder: must be empty. All temporary files of the tour are in ``tmp`` there.
        stdin: ``subprocess.PIPE``: :meth:`press_enter` writes into it.
    """

    def __init__(
        self,
        folder: Path,
        *words: str,
        program: Sequence[str] = (str(ANABRANCH),),
        stdin: int = subprocess.DEVNULL,
    ) -> None:
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        self.out = folder / "tour.out"
        outside = {name: value for name, value in os.environ.items() if not name.startswith("ANABRANCH")}
        env = {**outside, "TMPDIR": str(self.temporary), "COLUMNS": "80"}
        with self.out.open("wb") as out:
            self.popen = subprocess.Popen(
                [*program, "demo", *words],
                cwd=folder,
                env=env,
                stdin=stdin,
                stdout=out,
                stderr=out,
                preexec_fn=_heed_signals,  # noqa: PLW1509  # it takes no lock
            )

    @property
    def text(self) -> str:
        return self.out.read_text()

    def press_enter(self) -> None:
        assert self.popen.stdin is not None
        self.popen.stdin.write(b"\n")
        self.popen.stdin.flush()

    def wait(self, seconds: float) -> int:
        """The exit code."""
        return self.popen.wait(seconds)

    def processes(self) -> dict[int, str]:
        """What runs of it, by its environment, which names the folder: commands by process id."""
        running = {}
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if str(self.temporary).encode() in (folder / "environ").read_bytes():
                    running[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        return running

    def check_nothing_is_left(self) -> None:
        """No process, no file: at once, but for processes that have been killed and aren't gone."""
        end = time.monotonic() + 2
        while (left := self.processes()) and time.monotonic() < end:
            time.sleep(0.05)
        assert not left, f"these are left: {left}\n{self.text}"
        files = [str(file) for file in self.temporary.iterdir()]
        assert not files, f"these are left: {files}\n{self.text}"

    def close(self) -> None:
        """End what a test that failed has left."""
        self.popen.kill()
        self.popen.wait()
        if self.popen.stdin is not None:
            self.popen.stdin.close()
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, 9)
