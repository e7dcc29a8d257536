"""The log of a process, as text or JSON, one line an event.

It is made with structlog, which is only imported when there is something to log: that takes longer than most verbs.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

__all__ = ["FORMATS", "LEVELS", "bind", "get_logger", "say", "to_stderr"]

LEVELS, FORMATS = ("debug", "info", "warning", "error"), ("text", "json")
_SAID = {"warning: ": "warning", "error: ": "error"}
_level: list[str] = []
"""The level from which messages are shown, once structlog is imported."""
_format: list[str] = ["text"]


def to_stderr(level: str, form: str = "text") -> None:
    """Show this process's messages on stderr, from a level on.

    Args:
        level: one of :data:`LEVELS`.
        form: one of :data:`FORMATS`.

    """
    _level[:], _format[:] = [level], [form]
    if "structlog" in sys.modules:
        _configure()


def get_logger() -> Any:
    """A logger of structlog's."""
    import structlog

    if _level and not structlog.is_configured():
        _configure()
    return structlog.get_logger()


def bind(**values: object) -> None:
    """From now on, each event of this thread has these values."""
    import structlog

    structlog.contextvars.bind_contextvars(**values)


def say(line: str, level: str = "") -> None:
    """Tell the user something on stderr, whatever is shown of the log. In JSON it is an event like others.

    Args:
        level: the event's; default: by how the line begins, "info" unless with "warning: " or "error: ".
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
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(_level[-1]),
        logger_factory=_Stderr,
    )


class _Stderr:
    """What structlog writes with: stderr as it is at the time. Where that is closed, or its disk is full, a line is
    lost, and nothing else: a job doesn't depend on its log.
    """

    def __init__(self, *_: object) -> None:
        """Loggers are made with their names."""

    def msg(self, message: str) -> None:
        _write(message)

    debug = info = warning = error = critical = exception = msg


def _write(line: str) -> None:
    with suppress(OSError, ValueError):
        print(line, file=sys.stderr, flush=True)
