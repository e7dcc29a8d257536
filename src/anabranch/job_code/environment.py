"""Gives Python workers the environment variables that a test or a notebook has changed since Spark was started.

Workers inherit the environment in which Spark was started. In a test process or a notebook, Spark usually outlives many
changes to the environment, such as those made by pytest's ``monkeypatch.setenv``.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field

__all__ = ["Changes", "applied", "apply", "changes", "follow"]

Changes = tuple[tuple[str, str | None], ...]
"""The names of variables with their new values; None for a variable that has been removed."""

_OF_TOOLS = re.compile(
    "PYSPARK_.*|ANABRANCH_JOB_.*|PYTHONPATH|PYTEST_CURRENT_TEST"
    "|SPARK_(HOME|AUTH_SOCKET_TIMEOUT|BUFFER_SIZE|CONNECT_MODE_ENABLED|LOCAL_REMOTE)"
)
"""The names of variables that Spark, anabranch and pytest set for themselves in a running process."""


@dataclass
class _Process:
    """What this process knows about the environment.

    Attributes:
        inherited: in the user's process, the environment that workers inherit; empty in workers.
        followed: in the user's process, whether workers follow the process's environment.
        applied: in a worker, the changes that the worker has made to its environment.
        replaced: in a worker, the values that variables had before these changes.
    """

    inherited: dict[str, str] = field(default_factory=dict)
    followed: bool = False
    applied: Changes = ()
    replaced: Changes = ()


_process = _Process()


def follow(workers: bool = True) -> None:
    """Set whether Python workers follow the environment of this process. The first call with True stores the current
    environment as the one that workers inherit. Later calls don't replace it, because PySpark's JVM lasts as long as
    the process.
    """
    _process.followed = workers
    if workers and not _process.inherited:
        _process.inherited = dict(os.environ)


def changes() -> Changes:
    """The differences between this process's environment and the environment that workers inherit. If workers don't
    follow this process's environment, the result is empty. In a worker, the result contains the changes that the worker
    has made.
    """
    if not _process.followed:
        return _process.applied
    names = {each for each in {*_process.inherited, *os.environ} if not _OF_TOOLS.fullmatch(each)}
    present = ((name, os.environ.get(name)) for name in sorted(names))
    return tuple((name, value) for name, value in present if value != _process.inherited.get(name))


def applied() -> Changes:
    """The changes that this process has made to its environment, if this process is a worker. In the user's process,
    the result is empty.
    """
    return _process.applied


def apply(wanted: Changes) -> None:
    """In a worker, undo the earlier changes to the environment, and make the changes ``wanted``. Does nothing in the
    user's process.
    """
    if _process.inherited or wanted == _process.applied:
        return
    _set(_process.replaced)
    _process.replaced = tuple((name, os.environ.get(name)) for name, _ in wanted)
    _set(wanted)
    _process.applied = wanted


def _set(values: Changes) -> None:
    for name, value in values:
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
