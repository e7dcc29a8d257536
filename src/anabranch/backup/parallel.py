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
    """The results, in order. If an item fails, its error is raised after the work that is under way has ended; later
    items may be skipped."""
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="backup") as pool:
        return [*pool.map(work, items)]
