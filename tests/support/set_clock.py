"""A clock of the machine that a test sets while processes run that go by it."""

from __future__ import annotations

import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path

__all__ = ["COMPILER", "SetClock"]

COMPILER = shutil.which("cc")
"""Without a C compiler there is no such clock."""
_SOURCE = Path(__file__).with_name("clock_ahead.c")


class SetClock:
    """The clock of all processes that are started with ``env``; others go by the machine's.

    Args:
        folder: where it keeps its library, and how far ahead it is.
        ahead: of the machine's clock, in seconds.
    """

    def __init__(self, folder: Path, name: str, ahead: int = 0) -> None:
        library = folder / "clock_ahead.so"
        if not library.exists():
            words = ["-shared", "-fPIC", "-O2", "-o", str(library), str(_SOURCE), "-ldl"]
            subprocess.run([str(COMPILER), *words], check=True)
        self._file = folder / f"{name}-clock"
        self.env = {"LD_PRELOAD": str(library), "CLOCK_AHEAD": str(self._file)}
        self.set(ahead)

    def set(self, ahead: int) -> None:
        """Set it to so many seconds ahead of the machine's clock."""
        part = self._file.with_suffix(".part")
        part.write_text(str(ahead))
        part.replace(self._file)

    def set_to(self, time: datetime) -> None:
        """Set it to a time, from which it goes on."""
        self.set(round((time - datetime.now(UTC)).total_seconds()))
