"""What the autosizer's looks at a job have found so far."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from anabranch.coordinator.sizing.report_history import ReportHistory
from anabranch.coordinator.sizing.scalability import Scalability

__all__ = ["Findings", "RejectedFactor", "Streak"]


@dataclass(frozen=True, slots=True)
class Streak:
    """An unbroken series of looks that all found the same thing, up to the latest look. If the latest look didn't find
    the same thing, the series is empty.

    Args:
        since: when the first of these looks was, on any clock; None if there are none.
        looks: the number of these looks.
    """

    since: float | None = None
    looks: int = 0

    def looked(self, found: bool, now: float) -> Streak:
        """The series after one more look, at ``now``. ``found`` says whether this look found the same thing."""
        return Streak(now if self.since is None else self.since, self.looks + 1) if found else Streak()

    def lasts(self, looks: int, seconds: float, now: float) -> bool:
        """Whether the series has at least ``looks`` looks, and began at least ``seconds`` ago."""
        return self.since is not None and self.looks >= looks and now - self.since >= seconds


@dataclass(frozen=True)
class RejectedFactor:
    """A factor that proved too small soon after the job got it.

    Args:
        arriving: how many records per second arrived with this factor.
        at: when the job's factor rose again.
    """

    factor: int
    arriving: float
    at: float


@dataclass(frozen=True)
class Findings:
    """The results of all looks at a job so far. All times are on the clock of :func:`autosizing.looked`.

    Args:
        of: the deployment and the number of seats. If either changes, all findings are dropped.
        generation: the job's generation at the last look; ``factor`` is the job's factor then.
        fell: when the factor last fell; minus infinity if no fall has been seen.
        arriving: how many records per second arrived for all lanes together at the last conclusive look.
        too_small: the last factor that proved too small soon after the job got it; None if no such factor counts any
            more.
        changed: when the generation of the last change was first seen, or when the job was last seen in a state other
            than running, whichever is later. Minus infinity if no change has been seen.
        rising: the unbroken series of looks, up to the latest one, that found the factor too small.
        pressing: like ``rising``, but for looks that found the factor too small because records would wait too long.
        falling: like ``rising``, but for looks that found the factor too large.
        falls_to: the largest factor that the looks in ``falling`` have suggested.
        advising: like ``rising``, but for looks that gave advice.
        seen: experience with factors, by stage and group.
    """

    of: tuple[int, int] = (0, 0)
    generation: int = 0
    factor: int = 0
    fell: float = -math.inf
    arriving: float = 0.0
    too_small: RejectedFactor | None = None
    changed: float = -math.inf
    heard: Mapping[str, ReportHistory] = field(default_factory=dict)
    rising: Streak = Streak()
    pressing: Streak = Streak()
    falling: Streak = Streak()
    falls_to: int = 0
    advising: Streak = Streak()
    seen: Mapping[tuple[str, str], Scalability] = field(default_factory=dict)

    @property
    def inconclusive(self) -> Findings:
        """The findings after a look from which nothing can be concluded."""
        return replace(self, rising=Streak(), pressing=Streak(), falling=Streak(), advising=Streak())
