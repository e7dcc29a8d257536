"""The log of a process, with structlog, which is only imported when there is something to log: that takes longer than
most verbs.
"""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["get_logger", "to_stderr"]

_level: list[str] = []
"""The level from which messages are shown, once structlog is imported."""


def to_stderr(level: str) -> None:
    """Show this process's messages on stderr, from a level on."""
    _level[:] = [level]
    if "structlog" in sys.modules:
        _configure()


def get_logger() -> Any:
    """A logger of structlog's."""
    import structlog

    if _level and not structlog.is_configured():
        _configure()
    return structlog.get_logger()


def _configure() -> None:
    import structlog

    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(_level[-1]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
