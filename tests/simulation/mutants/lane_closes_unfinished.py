"""A closing lane does not finish the batch that was pending when its folder was taken."""

from __future__ import annotations

from dataclasses import replace

import pytest

from anabranch.container.lane import lifecycle
from anabranch.container.lane.actions import EndLane, FinishPending
from anabranch.container.lane.events import Event
from anabranch.container.lane.lifecycle import LifeState, Phase, Stepped

BREAKS = frozenset({"progress", "exactly-once", "each-once", "state-goes-along"})


def apply(patch: pytest.MonkeyPatch) -> None:
    step = lifecycle.step

    def mutant(state: LifeState, event: Event) -> Stepped:
        following, actions = step(state, event)
        if FinishPending() in actions:
            return replace(following, phase=Phase.ENDING), (EndLane(),)
        return following, actions

    patch.setattr(lifecycle, "step", mutant)
