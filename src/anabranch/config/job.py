"""The section ``[job]``."""

from __future__ import annotations

import math
from typing import Literal

from pydantic import Field, field_validator

from anabranch.config.autoscale import AutoscaleSettings
from anabranch.config.durations import Duration, PositiveDuration
from anabranch.config.section import Section
from anabranch.event_time import durations

__all__ = ["MOST_CONTAINERS", "JobSettings"]

_NEVER, _FOREVER = "never", "forever"
MOST_CONTAINERS = 1000
"""The maximum number of containers of a job."""


class JobSettings(Section):
    """How a job runs: for example, how it is divided among containers, how large its batches are, and how failures are
    handled."""

    grouper: str = "partition"
    """How partitions become tasks: the name of a grouper, or ``module:function``."""

    factor: int = 1

    threads: int = Field(default=64, ge=1, le=1024)
    """The maximum number of buckets that a Python worker processes at the same time if the factor is above 1."""

    lanes: int = Field(default=1, ge=1, le=64)
    """The maximum number of lanes among which a container divides its tasks of a stateless group."""

    containers: int = Field(default=1, ge=1, le=MOST_CONTAINERS)

    autoscale: AutoscaleSettings | None = None

    artifact: Literal["store", "image"] = "store"
    """Where containers get the job's code: from the coordinator's store, or from the working folder of their image."""

    warm_containers: int = Field(default=0, ge=0, le=100)
    """The number of processes that the coordinator's launcher keeps standing by, in addition to the processes that have
    a seat."""

    trigger: Literal["micro-batch", "real-time"] = "micro-batch"

    interval: Duration = "0 seconds"
    """The shortest time between the starts of two batches. With the real-time trigger, this is the duration of a batch
    instead: at least 5 seconds, and by default 5 minutes."""

    max_rows_per_batch: int = Field(default=1_000_000, ge=1)
    """The maximum number of records of each input in a batch."""

    target_batch_seconds: float = Field(default=4.0, ge=0, le=3600, allow_inf_nan=False)
    """The target for the duration of a batch. If batches take longer, later batches get fewer records. 0 means that
    there is no target.
    """

    state_partitions: int = Field(default=4, ge=1, le=1024)

    on_error: Literal["dead-letter", "drop", "fail"] = "dead-letter"
    """What happens to a record that can't be processed."""

    on_null_key: Literal["dead-letter", "drop", "fail"] = "dead-letter"
    """What happens to a record whose key is null, if an operator needs the key."""

    watermark_scope: Literal["ssp", "lane"] = "ssp"
    """``ssp``: a lane's watermark follows the slowest of its SSPs. ``lane``: the lane uses Spark's own watermark, which
    follows the fastest SSP.
    """

    attempts: int = Field(default=3, ge=1, le=1000)
    """How many attempts in a row a lane gets for the same batch, including the first attempt. Attempts made while the
    lane waits for a disk, a broker or another system don't count."""

    max_wait: str = "forever"
    """How long a lane waits for a disk, a broker or another system before the lane counts as failed. ``forever``: the
    lane waits until the system is available again.
    """

    stall_after: PositiveDuration = "5 minutes"
    """An attempt fails if the lane has records to read, but makes no progress for this time (with the real-time
    trigger, for this time plus the duration of a batch)."""

    idle_after: str = "1 minute"
    """An SSP that was read to its end becomes idle after this time without new records. An idle SSP doesn't hold the
    watermark back. ``never``: no SSP becomes idle.
    """

    message_timeout: str | None = None
    """The time limit for a function's work on one message; None for no limit."""

    expansion_check: Duration = "60 seconds"
    """The time between two checks of the inputs' partition counts."""

    on_coordinator_loss: Literal["continue", "stop"] = "continue"
    """What a container does if it can't reach its coordinator. If the job has the real-time trigger or an output that
    can't be fenced, its containers stop in any case, before their leases end."""

    @property
    def idle_seconds(self) -> float:
        """``idle_after`` in seconds; infinite for ``never``."""
        return math.inf if self.idle_after == _NEVER else durations.parse(self.idle_after) / 1000

    @property
    def wait_seconds(self) -> float:
        """``max_wait`` in seconds; infinite for ``forever``."""
        return math.inf if self.max_wait == _FOREVER else durations.parse(self.max_wait) / 1000

    @field_validator("max_wait")
    @classmethod
    def _max_wait(cls, text: str) -> str:
        if text != _FOREVER:
            durations.parse(text)
        return text

    @field_validator("idle_after")
    @classmethod
    def _idle_after(cls, text: str) -> str:
        if text != _NEVER and not durations.parse(text):
            raise ValueError('give a duration such as "1 minute", or "never"')
        return text

    @field_validator("message_timeout")
    @classmethod
    def _message_timeout(cls, text: str | None) -> str | None:
        if text is not None and not durations.parse(text):
            raise ValueError('give a duration such as "1 minute", or leave it out')
        return text
