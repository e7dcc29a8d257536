"""Checks names of jobs and seats, and ids of containers, before these are used in a path or a query."""

from __future__ import annotations

import re

from anabranch.errors import UsageError

__all__ = ["check_container", "check_name"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_CONTAINER = re.compile(rf"{_NAME.pattern}:{_NAME.pattern}:[0-9]{{1,18}}")


def check_name(word: str, name: str) -> str:
    """Return the name of a job or a seat if the name is allowed. ``word`` says what the name is for. Raises UsageError
    if the name isn't allowed.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name[:120]!r} can't be the name of a {word}",
            "use up to 100 letters, digits, dots, dashes and underscores, a letter or digit first",
        )
    return name


def check_container(container: str) -> str:
    """Return a container id if it has the form ``job:seat:epoch``. Raises UsageError otherwise."""
    if not _CONTAINER.fullmatch(container):
        raise UsageError(f"{container[:240]!r} is not a container id", "write job:seat:epoch, as in delays:0:3")
    return container
