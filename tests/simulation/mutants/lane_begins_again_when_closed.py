"""A lane that has ended is begun again as long as the coordinator wants it."""

from __future__ import annotations

import pytest

from anabranch.container.lane import lifecycle
from anabranch.container.lane.actions import BeginAttempt
from anabranch.container.lane.events import Event, Run
from anabranch.container.lane.lifecycle import LifeState, Phase, Stepped

BREAKS = frozenset({"closed-stays", "progress", "one-owner", "stopped-is-stopped"})


def apply(patch: pytest.MonkeyPatch) -> None:
    step = lifecycle.step

    def mutant(state: LifeState, event: Event) -> Stepped:
        if isinstance(event, Run) and state.phase is Phase.ENDED:
            begun = LifeState(folder_epoch=event.folder_epoch, closing=event.closing)
            return begun, (BeginAttempt(),)
        return step(state, event)

    patch.setattr(lifecycle, "step", mutant)
