"""A lane whose query stops for a drain ends if the drain is cancelled before the query has stopped."""

from __future__ import annotations

from dataclasses import replace

import pytest

from anabranch.container.lane import lifecycle
from anabranch.container.lane.events import Event, QueryStopped
from anabranch.container.lane.lifecycle import LifeState, Stepped

BREAKS = frozenset({"progress"})
FIRST = 3250


def apply(patch: pytest.MonkeyPatch) -> None:
    step = lifecycle.step

    def mutant(state: LifeState, event: Event) -> Stepped:
        return step(replace(state, caught_up=True) if isinstance(event, QueryStopped) else state, event)

    patch.setattr(lifecycle, "step", mutant)
