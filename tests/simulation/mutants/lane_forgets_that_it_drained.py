"""A lane that has drained ends as if it had not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from anabranch.container.lane import lifecycle
from anabranch.container.lane.events import DrainEnded, Event
from anabranch.container.lane.lifecycle import LifeState, Stepped

BREAKS = frozenset({"progress"})


def apply(patch: pytest.MonkeyPatch) -> None:
    step = lifecycle.step

    def mutant(state: LifeState, event: Event) -> Stepped:
        following, actions = step(state, event)
        return replace(following, drained=False) if isinstance(event, DrainEnded) else following, actions

    patch.setattr(lifecycle, "step", mutant)
