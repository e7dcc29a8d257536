"""A lane runs on when its container ends."""

from __future__ import annotations

import pytest

from anabranch.container.lane import lifecycle
from anabranch.container.lane.events import Event, Leave
from anabranch.container.lane.lifecycle import LifeState, Stepped

BREAKS = frozenset({"progress"})


def apply(patch: pytest.MonkeyPatch) -> None:
    step = lifecycle.step

    def mutant(state: LifeState, event: Event) -> Stepped:
        if isinstance(event, Leave) and not event.unwanted:
            return state, ()
        return step(state, event)

    patch.setattr(lifecycle, "step", mutant)
