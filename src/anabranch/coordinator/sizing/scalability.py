"""Records how the speed of a lane's functions depends on the factor."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

__all__ = ["UNKNOWN", "Scalability"]

_ENOUGH, _MOST = 5, 30
"""How many looks count after the factor has changed. A value needs at least ``_ENOUGH`` looks. Only the first ``_MOST``
looks count, because later records may differ too much from the records before the change.
"""
_NEWEST = 0.3
"""The least weight of the newest look in a mean."""
_CROWDED = 1.5
_AS_FORETOLD = 0.8
"""If the exponent is at least this number, functions count as having become as fast as expected, because the difference
may be chance."""


@dataclass(frozen=True)
class Scalability:
    """How the speed of functions has depended on the factor, as seen in the autosizer's looks at a job.

    Args:
        factor: the factor of the last look; called the current factor below.
        hot: the seconds that functions take per record with the current factor.
        looks: the number of looks from which ``hot`` was determined.
        former: the last factor before the current one for which there were enough looks; 0 if there was none.
        former_hot: ``hot`` with the factor ``former``.
        seconds: for each observed factor, the time that functions take per record. Only the ratios between these times
            count.
        at: for each factor in ``seconds``, when its time was observed.
        crowd: how long functions hold up a lane in which records wait, as a multiple of the time for their busiest
            bucket. Above 1, partitions compete for cores.
        crowd_looks: the number of looks from which ``crowd`` was determined.
    """

    factor: int = 0
    hot: float = 0.0
    looks: int = 0
    former: int = 0
    former_hot: float = 0.0
    seconds: Mapping[int, float] = field(default_factory=dict)
    at: Mapping[int, float] = field(default_factory=dict)
    crowd: float = 1.0
    crowd_looks: int = 0

    def seen(self, factor: int, hot: float, now: float) -> Scalability:
        """The same values, updated after a look at a lane that has the factor ``factor``, and whose functions take
        ``hot`` seconds per record."""
        if factor != self.factor:
            enough = self.looks >= _ENOUGH
            former, former_hot = (self.factor, self.hot) if enough else (self.former, self.former_hot)
            return replace(self, factor=factor, hot=hot, looks=1, former=former, former_hot=former_hot)
        mean = self.hot + max(_NEWEST, 1 / (self.looks + 1)) * (hot - self.hot)
        after = replace(self, hot=mean, looks=self.looks + 1)
        if not (self.former and self.former != factor and _ENOUGH <= after.looks <= _MOST):
            return after
        unit = self.seconds.get(self.former, 1.0)
        seconds = {**self.seconds, self.former: unit, factor: unit * mean / self.former_hot}
        return replace(after, seconds=seconds, at={**self.at, self.former: self.at.get(self.former, now), factor: now})

    def crowded(self, times: float) -> Scalability:
        """The same values, updated after a look at a lane in which records wait. ``times`` is the ``crowd`` of the
        lane's load."""
        mean = self.crowd + max(_NEWEST, 1 / (self.crowd_looks + 1)) * (times - self.crowd)
        return replace(self, crowd=mean, crowd_looks=self.crowd_looks + 1)

    @property
    def crowding(self) -> float:
        """``crowd``; 1.0 if the observed value may be chance."""
        return self.crowd if self.crowd_looks >= _ENOUGH and self.crowd >= _CROWDED else 1.0

    def since(self, then: float) -> Scalability:
        """The same values, without those ``seconds`` that were observed before ``then``. The ``seconds`` of the current
        factor are always kept.
        """
        if all(at >= then for factor, at in self.at.items() if factor != self.factor):
            return self
        kept = {factor: at for factor, at in self.at.items() if at >= then or factor == self.factor}
        return replace(self, seconds={factor: self.seconds[factor] for factor in kept}, at=kept)

    def exponent(self, factor: int) -> float:
        """The exponent of the speed-up from the next smaller known factor to ``factor``. The exponent is 1 if functions
        became faster in proportion to the factor, and 0 if they became no faster. If nothing is known, or if the
        difference from 1 may be chance, the result is 1.
        """
        smaller = max((known for known in self.seconds if known < factor), default=0)
        if not smaller or factor not in self.seconds:
            return 1.0
        gain = self.seconds[smaller] / self.seconds[factor]
        exponent = math.log(max(1.0, gain)) / math.log(factor / smaller)
        return 1.0 if exponent >= _AS_FORETOLD else exponent


UNKNOWN = Scalability()
