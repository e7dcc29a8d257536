"""A lane that waits for its next attempt does so when its container ends, or nobody wants it."""

from __future__ import annotations

import pytest

from anabranch.container.lane import lifecycle
from anabranch.container.lane.events import Event, Leave
from anabranch.container.lane.lifecycle import LifeState, Phase, Stepped

BREAKS = frozenset({"progress"})


def apply(patch: pytest.MonkeyPatch) -> None:
    step = lifecycle.step

    def mutant(state: LifeState, event: Event) -> Stepped:
        if isinstance(event, Leave) and state.phase is Phase.RETRYING:
            return state, ()
        return step(state, event)

    patch.setattr(lifecycle, "step", mutant)
