"""SIGTERM ends a command as Ctrl-C does: with everything that it has started."""

from __future__ import annotations

import signal

__all__ = ["interruptible"]


def interruptible() -> None:
    """Let SIGTERM end this process as Ctrl-C does. Python ends at once by default, and what was started stays. Only the
    first one counts, so that a second one doesn't disturb what ends the others."""

    def interrupt(*_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
