"""The log of a process, as text or JSON, with one line for each event.

This module imports structlog only when a module asks for a logger or binds values, because the import takes longer than
most verbs of the CLI.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from datetime import UTC, datetime
from typing import Any

__all__ = ["FORMATS", "LEVELS", "bind", "get_logger", "say", "to_stderr"]

LEVELS, FORMATS = ("debug", "info", "warning", "error"), ("text", "json")
_SAID = {"warning: ": "warning", "error: ": "error"}
_level: list[str] = []
"""The lowest level of messages that are shown; applied when structlog is imported."""
_format: list[str] = ["text"]


def to_stderr(level: str, form: str = "text") -> None:
    """Show this process's messages on stderr.

    Args:
        level: the lowest level to show, one of :data:`LEVELS`.
        form: one of :data:`FORMATS`.
    """
    _level[:], _format[:] = [level], [form]
    if "structlog" in sys.modules:
        _configure()


def get_logger() -> Any:
    """A structlog logger."""
    import structlog

    if _level and not structlog.is_configured():
        _configure()
    return structlog.get_logger()


def bind(**values: object) -> None:
    """Add these values to each later event of this thread."""
    import structlog

    structlog.contextvars.bind_contextvars(**values)


def say(line: str, level: str = "") -> None:
    """Print a line for the user on stderr, whatever the log level is. If the log is JSON, the line becomes an event.

    Args:
        line: the text. In JSON, a leading "warning:" or "error:" is removed from the text.
        level: the event's level in JSON. By default, the level is "warning" or "error" if the line begins with that
            word, and "info" otherwise. Not used if the log is text.
    """
    if _format[-1] == "text":
        _write(line)
        return
    for start, meant in _SAID.items():
        if line.startswith(start):
            line, level = line.removeprefix(start), level or meant
    bound = {}
    if "structlog" in sys.modules:
        import structlog

        bound = structlog.contextvars.get_contextvars()
    now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    event = {**bound, "event": line, "level": level or "info", "timestamp": now}
    _write(json.dumps(event, default=repr, ensure_ascii=False))


def _configure() -> None:
    import structlog

    if _format[-1] == "json":
        structlog.configure(
            processors=[
                structlog.contextvars.merge_contextvars,
                structlog.processors.add_log_level,
                structlog.processors.TimeStamper(fmt="iso", utc=True),
                structlog.processors.format_exc_info,
                structlog.processors.JSONRenderer(ensure_ascii=False),
            ]
        )
    else:
        # By default, structlog shows the local variables of each frame, among them a request with its token.
        colours = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
        shown = structlog.dev.ConsoleRenderer(colors=colours, exception_formatter=structlog.dev.plain_traceback)
        structlog.configure(processors=[*structlog.get_config()["processors"][:-1], shown])
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(_level[-1]),
        logger_factory=_Stderr,
    )


class _Stderr:
    """Writes structlog's lines to the current ``sys.stderr``. If a line can't be written, for example because stderr is
    closed or a disk is full, the line is dropped without an error. A job must not fail because of its log.
    """

    def __init__(self, *_: object) -> None:
        """Accepts and ignores the names with which loggers are created."""

    def msg(self, message: str) -> None:
        _write(message)

    debug = info = warning = error = critical = exception = msg


def _write(line: str) -> None:
    try:
        print(line, file=sys.stderr, flush=True)
    except RuntimeError:
        _write_past_the_buffer(line)
    except ValueError:
        pass  # stderr is closed
    except OSError:
        _forget_what_is_buffered()


def _write_past_the_buffer(line: str) -> None:
    """Write a line directly to stderr's file. The handler of a signal uses this function if the signal arrived while
    this thread was writing another line. At such a moment, the handler can't use stderr's buffer.
    """
    with contextlib.suppress(OSError, ValueError):
        os.write(sys.stderr.fileno(), f"{line}\n".encode(errors="replace"))


def _forget_what_is_buffered() -> None:
    """Make stderr drop a line that couldn't be written. If stderr kept the line, Python would try to write it again
    when the process ends. A process that has done all its work would then exit with code 120.
    """
    raw = getattr(getattr(sys.stderr, "buffer", None), "raw", None)  # without it, nothing is buffered
    if raw is not None:
        sys.stderr = io.TextIOWrapper(raw, sys.stderr.encoding, sys.stderr.errors, write_through=True)
