"""The events for which a job can register a function."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ON_DRAIN", "DrainedTask"]

ON_DRAIN = -1
"""The key of the ``on_drain`` function among a job's functions. The keys of all other functions are node numbers."""


@dataclass(frozen=True)
class DrainedTask:
    """A task that has drained: the task has processed all its records, and its stage has written all results of these
    records, including those of windows and timers. Later stages may still be draining.

    Attributes:
        job: the job's name.
        stage: the stage's number, as text.
        name: the task's name, such as ``Partition_3``.
    """

    job: str
    stage: str
    name: str
