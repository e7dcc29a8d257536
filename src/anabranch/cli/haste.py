"""Gives the verbs that change a job the option ``--now``, a reminder of what this option allows, and messages that say
what closing lanes are waiting for."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated

import typer

from anabranch.cli import progress
from anabranch.protocol.status import JobStatus

__all__ = ["Now", "Waits", "said"]

_EVERY = 3.0

Now = Annotated[
    bool,
    typer.Option(
        "--now",
        help="Don't wait for running batches. Their at-least-once output and foreach_batch calls may be repeated.",
    ),
]


def said(now: bool) -> None:
    """If ``now`` is set, remind the user of what ``--now`` allows."""
    if now:
        progress.say("--now: at-least-once output and foreach_batch calls of running batches may be repeated")


class Waits:
    """Prints, every few seconds, what closing lanes are waiting for."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, say: Callable[[str], None] = progress.say) -> None:
        self._clock = clock
        self._say = say
        self._told_at: float | None = None

    def tell(self, status: JobStatus) -> None:
        lines = progress.waits(status)
        if lines and (self._told_at is None or self._clock() >= self._told_at + _EVERY):
            self._told_at = self._clock()
            for line in lines:
                self._say(line)
