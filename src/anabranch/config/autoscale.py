"""The section ``[job.autoscale]``."""

from __future__ import annotations

from pydantic import Field, field_validator, model_validator

from anabranch.config.durations import Duration
from anabranch.config.section import Section
from anabranch.model.factor import FACTORS

__all__ = ["AutoscaleSettings"]


class AutoscaleSettings(Section):
    """Lets the coordinator choose a job's factor, from ``min`` to ``max``, so that, if possible, Python functions work
    on each bucket for at most the share ``target_busy`` of the time, and a backlog is worked off within
    ``target_lag_seconds``. After a change, the factor stays the same for ``cooldown``, but is raised earlier if a
    backlog would take longer. In a deployment's first generation, ``cooldown`` doesn't keep the factor from being
    raised. After a change was undone, the factor stays the same for ten times ``cooldown``, even if a backlog takes
    longer.
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
