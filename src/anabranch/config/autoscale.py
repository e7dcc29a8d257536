"""The section ``[job.autoscale]``."""

from __future__ import annotations

from pydantic import Field, field_validator, model_validator

from anabranch.config.durations import Duration
from anabranch.config.section import Section
from anabranch.model.factor import FACTORS

__all__ = ["AutoscaleSettings"]


class AutoscaleSettings(Section):
    """Lets the coordinator choose a job's factor so that two targets are met, if possible.

    Attributes:
        min: the smallest factor that is chosen; a power of two.
        max: the largest factor that is chosen; a power of two.
        target_busy: the first target: Python functions work on each bucket for at most this share of the time.
        target_lag_seconds: the second target: a backlog is worked off within this time.
        cooldown: how long the factor stays the same after a change. The factor can be raised earlier in two cases: if
            working off a backlog would take longer than ``target_lag_seconds``, or if the deployment is in its first
            generation. After a change has been undone, the factor stays the same for ten times ``cooldown``, even in
            these cases.
    """

    min: int = 1
    max: int
    target_busy: float = Field(default=0.7, gt=0, lt=1)
    target_lag_seconds: float = Field(default=60.0, ge=1, le=86_400)
    cooldown: Duration = "2 minutes"

    @field_validator("min", "max")
    @classmethod
    def _factor(cls, factor: int) -> int:
        if factor not in FACTORS:
            raise ValueError(f"a factor is a power of two from {FACTORS[0]} to {FACTORS[-1]}")
        return factor

    @model_validator(mode="after")
    def _range(self) -> AutoscaleSettings:
        if self.min > self.max:
            raise ValueError(f"min = {self.min} is above max = {self.max}")
        return self
