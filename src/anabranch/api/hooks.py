"""The events of which a job can be notified."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ON_DRAIN", "DrainedTask"]

ON_DRAIN = -1
"""The key of the ``on_drain`` function among a job's functions; all others are keyed by node."""


@dataclass(frozen=True)
class DrainedTask:
    """A task that has drained: everything that it read has been written, including its windows and timers.

    Attributes:
        job: the job's name.
        stage: the stage's number, as text.
        name: the task's name, such as ``Partition_3``.
    """

    job: str
    stage: str
    name: str
