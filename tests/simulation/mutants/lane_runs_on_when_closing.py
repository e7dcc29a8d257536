"""A lane whose query runs does not stop at a batch boundary to close."""

from __future__ import annotations

from dataclasses import replace

import pytest

from anabranch.container.lane import lifecycle
from anabranch.container.lane.events import Closing, Event, Run
from anabranch.container.lane.lifecycle import LifeState, Phase, Stepped

BREAKS = frozenset({"progress"})


def apply(patch: pytest.MonkeyPatch) -> None:
    step = lifecycle.step

    def mutant(state: LifeState, event: Event) -> Stepped:
        if isinstance(event, Run) and state.phase is Phase.RUNNING:
            event = replace(event, closing=Closing.NO)
        return step(state, event)

    patch.setattr(lifecycle, "step", mutant)
