"""SIGTERM ends a command as Ctrl-C does: with everything that it has started."""

from __future__ import annotations

import signal
import threading

__all__ = ["ended_if_interrupted", "interruptible"]

_interrupted = threading.Event()


def interruptible() -> None:
    """Let SIGTERM end this process as Ctrl-C does. Python ends at once by default, and what was started stays. Only the
    first one counts, so that a second one doesn't disturb what ends the others."""

    def interrupt(*_: object) -> None:
        _interrupted.set()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)


def ended_if_interrupted() -> None:
    """Raise KeyboardInterrupt if there was a SIGTERM. For long loops through libraries: Python drops what a handler
    raises while one of their callbacks runs, such as those of garbage collection that Hypothesis has."""
    if _interrupted.is_set():
        raise KeyboardInterrupt
