"""A small disk, for tests of what happens when it is full."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["Disk", "mounted"]

_BALLAST = "ballast"


class Disk:
    """A file system of its own, in memory."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def free(self) -> int:
        """Bytes."""
        state = os.statvfs(self.path)
        return state.f_bavail * state.f_frsize

    def fill(self, leave: int = 0) -> None:
        """Until there are so many bytes left, though others may be writing meanwhile."""
        with open(self.path / _BALLAST, "wb") as file:
            while (size := self.free - leave) > 0:
                try:
                    os.posix_fallocate(file.fileno(), 0, size)
                    return
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise

    def make_room(self) -> None:
        (self.path / _BALLAST).unlink()


@contextmanager
def mounted(path: Path, megabytes: int) -> Iterator[Disk | None]:
    """None where this user may not mount one."""
    path.mkdir(exist_ok=True)
    options = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "anabranch-test", str(path)]
    if subprocess.run(options, capture_output=True).returncode:
        yield None
        return
    try:
        yield Disk(path)
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)
