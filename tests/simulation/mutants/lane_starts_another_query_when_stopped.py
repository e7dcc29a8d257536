"""A lane whose query has stopped, as was ordered, starts another one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from anabranch.container.lane import lifecycle
from anabranch.container.lane.actions import StartQuery
from anabranch.container.lane.events import Event, QueryStopped
from anabranch.container.lane.lifecycle import LifeState, Phase, Stepped

BREAKS = frozenset({"progress"})


def apply(patch: pytest.MonkeyPatch) -> None:
    step = lifecycle.step

    def mutant(state: LifeState, event: Event) -> Stepped:
        if isinstance(event, QueryStopped):
            return replace(state, phase=Phase.STARTING), (StartQuery(),)
        return step(state, event)

    patch.setattr(lifecycle, "step", mutant)
