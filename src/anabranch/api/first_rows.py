"""The processor of ``Stream.limit_per_key``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from anabranch.api.processor import Processor
from anabranch.api.state import ValueState
from anabranch.api.timers import Timers

__all__ = ["FirstRows"]


class FirstRows(Processor):
    """Passes on the first ``limit`` rows of each key, and drops the rest.

    Args:
        limit: the maximum number of rows per key.
    """

    passed = ValueState("long")
    """How many rows of the key have passed."""

    def __init__(self, limit: int) -> None:
        self._limit = limit

    def on_message(self, message: dict[str, Any], timers: Timers) -> Iterator[dict[str, Any]]:
        passed = self.passed.get(0)
        if passed < self._limit:
            self.passed.set(passed + 1)
            yield message
