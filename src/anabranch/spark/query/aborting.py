"""Aborts a worker's writer after an error, without hiding the error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from anabranch import logs

__all__ = ["Writer", "on_error", "quietly"]


class Writer(Protocol):
    def abort(self) -> None: ...


@contextmanager
def on_error(writer: Writer) -> Iterator[None]:
    """A context manager that aborts the writer if the block raises an error. If aborting the writer fails, only a
    warning is printed, because Spark reports only the last of several errors in a worker.
    """
    try:
        yield
    except BaseException:
        quietly(writer)
        raise


def quietly(writer: Writer) -> None:
    """Abort the writer. If this fails, only a warning is printed."""
    try:
        writer.abort()
    except Exception as error:
        logs.say(f"warning: what a Spark task has written, without effect, couldn't be removed: {error!r}")
