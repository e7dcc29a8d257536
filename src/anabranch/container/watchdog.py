"""Ends a process that must stop but doesn't, or that can't continue."""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import NoReturn

from anabranch.errors import AnabranchError, FencedError

__all__ = ["JAVA_IS_GONE", "end_with", "end_without_java", "watch", "watch_java"]

_EVERY = 0.1
_CURE = (
    "was it killed for its memory? see the kernel's log; give it more ([spark] memory), or smaller batches "
    "([job] max_rows_per_batch); the job continues from its last batches when it is started again"
)


def watch(
    must_stop: Callable[[], str],
    ended: threading.Event,
    patience: Callable[[], float],
    code: int = FencedError.exit_code,
) -> None:
    """In a separate thread, until ``ended`` is set, watch whether the process must stop. If the process doesn't stop in
    time, print the stacks of its threads, and end the process.

    Args:
        must_stop: returns why the process must stop; empty as long as it can continue.
        ended: the caller sets this event once the process no longer needs to be watched.
        patience: called when the process must stop; returns how many seconds the process has left to stop on its own.
        code: the exit code of the process if it is ended.
    """

    def look() -> None:
        while not (why := must_stop()):
            if ended.wait(_EVERY):
                return
        end = time.monotonic() + max(0.0, patience())
        while time.monotonic() < end:
            if ended.wait(_EVERY):
                return
        try:
            sys.stderr.write(f"error: {why}\n  it didn't stop in time; these are its threads:\n")
            sys.stderr.flush()
            faulthandler.dump_traceback()
        finally:  # even if stderr can't be written
            os._exit(code)

    threading.Thread(target=look, name="watchdog", daemon=True).start()


def end_with(lifeline: int) -> None:
    """In a separate thread, end this process at once when the process that holds the other end of a pipe has ended.

    Args:
        lifeline: the file descriptor of the end from which this process reads. Nothing is written to the pipe.
    """

    def look() -> None:
        try:
            os.read(lifeline, 1)
        finally:
            os._exit(AnabranchError.exit_code)

    threading.Thread(target=look, name="watchdog of the starter", daemon=True).start()


JAVA_IS_GONE = "the Java process of Spark has ended"

Replace = Callable[[str], None]
"""Replaces this process, for the given reason. Returns only if the process must not be replaced."""


def watch_java(is_gone: Callable[[], bool], ended: threading.Event, replace: Replace) -> None:
    """In a separate thread, until ``ended`` is set, watch the Java process. If the Java process has ended, the Python
    process is replaced or ended, because nothing can run without the Java process."""

    def look() -> None:
        while not ended.wait(_EVERY):
            if is_gone():
                end_without_java(replace)

    threading.Thread(target=look, name="watchdog of Java", daemon=True).start()


def end_without_java(replace: Replace) -> NoReturn:
    """Replace this process, whose Java process has ended. If the replacement isn't allowed, or if it fails, end this
    process with a message."""
    why = JAVA_IS_GONE
    try:
        try:
            replace(JAVA_IS_GONE)
        except Exception as error:
            why = f"{JAVA_IS_GONE}, and this process couldn't be replaced: {type(error).__name__}: {error}"
        sys.stderr.write(f"error: {why}\n  {_CURE}\n")
        sys.stderr.flush()
    finally:
        os._exit(AnabranchError.exit_code)
