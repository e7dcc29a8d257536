"""A function that travels to Python workers as code."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def unmarked(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Those whose mark is theirs, without it."""
    if message.pop("mark") == f"{message['carrier']}-{message['origin']}":
        yield message
