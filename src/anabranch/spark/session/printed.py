"""Finds the lines of output in which a failed process gives the reason."""

from __future__ import annotations

import re
from typing import IO

__all__ = ["last_lines"]

_MOST = 3
_FRAME = re.compile(r"at \S+\(.*\)|\.\.\. \d+ more")


def last_lines(output: IO[bytes]) -> str:
    """The last three lines of a process's output, separated by slashes. Lines without letters are left out, as are
    Java's stack frames. The output is read from the file's current position.
    """
    lines = [line.strip() for line in output.read().decode(errors="replace").splitlines()]
    texts = [line for line in lines if any(map(str.isalpha, line)) and not _FRAME.fullmatch(line)]
    return " / ".join(texts[-_MOST:]) or "nothing was printed"
