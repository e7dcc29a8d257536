"""A lane takes itself for drained as soon as it is to drain."""

from __future__ import annotations

from dataclasses import replace

import pytest

from anabranch.container.lane import lifecycle
from anabranch.container.lane.actions import DrainHeld, EndLane
from anabranch.container.lane.events import Event
from anabranch.container.lane.lifecycle import LifeState, Phase, Stepped

BREAKS = frozenset({"drained-is-exact"})


def apply(patch: pytest.MonkeyPatch) -> None:
    step = lifecycle.step

    def mutant(state: LifeState, event: Event) -> Stepped:
        following, actions = step(state, event)
        if DrainHeld() in actions:
            return replace(following, phase=Phase.ENDING, drained=True), (EndLane(),)
        return following, actions

    patch.setattr(lifecycle, "step", mutant)
