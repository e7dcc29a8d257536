"""Gives Python workers the environment variables that a test or a notebook has changed since Spark was started.

Workers inherit the environment in which Spark was started. In a test process or a notebook, Spark usually outlives many
changes of the environment, such as those of pytest's ``monkeypatch.setenv``.
"""

from __future__ import annotations

import os

__all__ = ["Changes", "apply", "changes", "remember"]

Changes = tuple[tuple[str, str | None], ...]
"""The names of variables with their new values; None for a variable that has been removed."""

_OF_TOOLS = ("PYTHON", "PYSPARK_", "SPARK_", "ANABRANCH_JOB_", "PYTEST_CURRENT_TEST")
"""How the names of variables begin that Python, Spark and anabranch set for themselves, or that pytest sets for each
test.
"""

_at_start: dict[str, str] = {}
_replaced: dict[str, str | None] = {}
_applied: list[Changes] = [()]


def remember() -> None:
    """Remember the environment of this process, as the one that workers inherit. Only the first call has an effect,
    because PySpark's JVM lasts as long as the process.
    """
    if not _at_start:
        _at_start.update(os.environ)


def changes() -> Changes:
    """What has changed in the environment since :func:`remember` was called; nothing if it wasn't."""
    if not _at_start:
        return ()
    names = {name for name in {*_at_start, *os.environ} if not name.startswith(_OF_TOOLS)}
    return tuple((name, os.environ.get(name)) for name in sorted(names) if os.environ.get(name) != _at_start.get(name))


def apply(wanted: Changes) -> bool:
    """Make these changes to the environment of this process, a worker, instead of those that were made before.

    Returns:
        Whether the environment has changed, so that modules that have read it must be imported again. In a process that
        has called :func:`remember`, nothing changes.
    """
    if _at_start or wanted == _applied[0]:
        return False
    for name, value in _replaced.items():
        _set(name, value)
    _replaced.clear()
    for name, value in wanted:
        _replaced[name] = os.environ.get(name)
        _set(name, value)
    _applied[0] = wanted
    return True


def _set(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value
