"""A process that runs in a copy reports the folder that it was copied from."""

from __future__ import annotations

from dataclasses import replace

import pytest

from anabranch.container.lane import lifecycle
from anabranch.container.lane.events import Event, FolderTaken, Run
from anabranch.container.lane.lifecycle import LifeState, Stepped
from anabranch.model.lane import Lane

BREAKS = frozenset({"one-owner", "exactly-once"})


def apply(patch: pytest.MonkeyPatch) -> None:
    initial, step = lifecycle.initial, lifecycle.step

    def former(lane: Lane) -> LifeState:
        return replace(initial(lane), folder_epoch=lane.folder_epoch)

    def mutant(state: LifeState, event: Event) -> Stepped:
        match event:
            case FolderTaken(epoch):
                event = FolderTaken(state.folder_epoch or epoch)
            case Run():
                event = replace(event, owner_lost=False)
        return step(state, event)

    patch.setattr(lifecycle, "initial", former)
    patch.setattr(lifecycle, "step", mutant)
