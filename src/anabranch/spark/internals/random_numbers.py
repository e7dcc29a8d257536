"""Makes ``numpy.random`` return different numbers in each fork of a process. By default, it returns the same numbers in
all forks. (Python's own ``random`` doesn't have this problem.)
"""

from __future__ import annotations

import os
import sys

__all__ = ["seed", "seed_forks"]


def seed() -> None:
    """Seed ``numpy.random`` in this process, if the module has been imported."""
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()


def seed_forks() -> None:
    """Call :func:`seed` in each fork of this process, but not in the forks that user code makes from these forks."""
    mine = os.getpid()
    os.register_at_fork(after_in_child=lambda: seed() if os.getppid() == mine else None)
