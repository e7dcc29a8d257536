"""A lane that failed waits for its next attempt for ever."""

from __future__ import annotations

from dataclasses import replace

import pytest

from anabranch.container.lane import lifecycle
from anabranch.container.lane.events import Event, Run
from anabranch.container.lane.lifecycle import LifeState, Stepped

BREAKS = frozenset({"progress"})


def apply(patch: pytest.MonkeyPatch) -> None:
    step = lifecycle.step

    def mutant(state: LifeState, event: Event) -> Stepped:
        return step(state, replace(event, rested=False) if isinstance(event, Run) else event)

    patch.setattr(lifecycle, "step", mutant)
