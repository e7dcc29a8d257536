"""Processes many files of a backup at once, in threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

__all__ = ["mapped"]

_AT_ONCE = 8

A = TypeVar("A")
B = TypeVar("B")


def mapped(work: Callable[[A], B], items: Iterable[A]) -> list[B]:
    """Call ``work`` for each item, several calls at a time, and return the results in the items' order. If ``work``
    raises an error, the error is raised after the calls that are under way have ended; later items may be skipped."""
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="backup") as pool:
        return [*pool.map(work, items)]
