"""A lane begins as soon as it has its folder, whether or not the coordinator knows that."""

from __future__ import annotations

from dataclasses import replace

import pytest

from anabranch.container.lane import lifecycle
from anabranch.container.lane.events import Event, FolderTaken
from anabranch.container.lane.lifecycle import LifeState, Stepped

BREAKS = frozenset({"exactly-once", "predecessors-first", "one-owner", "state-goes-along"})


def apply(patch: pytest.MonkeyPatch) -> None:
    step = lifecycle.step

    def mutant(state: LifeState, event: Event) -> Stepped:
        following, actions = step(state, event)
        return replace(following, acknowledged=True) if isinstance(event, FolderTaken) else following, actions

    patch.setattr(lifecycle, "step", mutant)
