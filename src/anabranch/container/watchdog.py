"""Ends a process that must stop and doesn't, or that can't go on."""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
import time
from collections.abc import Callable

from anabranch.errors import AnabranchError, FencedError

__all__ = ["watch", "watch_java"]

_EVERY = 0.1


def watch(
    must_stop: Callable[[], str],
    ended: threading.Event,
    patience: Callable[[], float],
    code: int = FencedError.exit_code,
) -> None:
    """Look until ``ended`` whether the process must stop; if it then doesn't end in time, end it, and show its threads.

    Args:
        must_stop: why; the empty text while it may go on.
        patience: seconds that stopping may take, asked for when it must stop.
        code: what a process that is ended exits with.
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
        finally:  # nobody may be there to read it
            os._exit(code)

    threading.Thread(target=look, name="watchdog", daemon=True).start()


def watch_java(is_gone: Callable[[], bool], ended: threading.Event) -> None:
    """End this process when its Java process has ended before it: nothing can run any more, and it should be seen."""

    def look() -> None:
        while not ended.wait(_EVERY):
            if is_gone():
                try:
                    sys.stderr.write("error: the Java process of Spark has ended\n  was it killed, for its memory?\n")
                    sys.stderr.flush()
                finally:
                    os._exit(AnabranchError.exit_code)

    threading.Thread(target=look, name="watchdog of Java", daemon=True).start()
