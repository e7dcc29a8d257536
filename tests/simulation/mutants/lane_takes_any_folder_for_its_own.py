"""A lane takes it for acknowledged when the coordinator knows any folder of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from anabranch.container.lane import lifecycle
from anabranch.container.lane.events import Event, Run
from anabranch.container.lane.lifecycle import LifeState, Stepped

BREAKS = frozenset({"exactly-once", "one-owner", "state-goes-along"})


def apply(patch: pytest.MonkeyPatch) -> None:
    step = lifecycle.step

    def mutant(state: LifeState, event: Event) -> Stepped:
        if isinstance(event, Run) and event.folder_epoch and state.folder_epoch and not state.ended:
            event = replace(event, folder_epoch=state.folder_epoch)
        return step(state, event)

    patch.setattr(lifecycle, "step", mutant)
