"""A lane drains on although that was called off."""

from __future__ import annotations

from dataclasses import replace

import pytest

from anabranch.container.lane import lifecycle
from anabranch.container.lane.events import Event, Run
from anabranch.container.lane.lifecycle import LifeState, Stepped

BREAKS = frozenset({"progress"})
FIRST = 300


def apply(patch: pytest.MonkeyPatch) -> None:
    step = lifecycle.step

    def mutant(state: LifeState, event: Event) -> Stepped:
        if isinstance(event, Run) and event.drain is None:
            event = replace(event, drain=state.drain)
        return step(state, event)

    patch.setattr(lifecycle, "step", mutant)
