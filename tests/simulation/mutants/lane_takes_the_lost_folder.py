"""A lane whose owner was lost goes on as if the owner's folder were its own: its copy is never acknowledged."""

from __future__ import annotations

from dataclasses import replace

import pytest

from anabranch.container.lane import lifecycle
from anabranch.container.lane.lifecycle import LifeState
from anabranch.model.lane import Lane

FIRST = 150
BREAKS = frozenset({"exactly-once", "one-owner", "state-goes-along"})


def apply(patch: pytest.MonkeyPatch) -> None:
    initial = lifecycle.initial

    def mutant(lane: Lane) -> LifeState:
        return replace(initial(lane), folder_epoch=lane.folder_epoch)

    patch.setattr(lifecycle, "initial", mutant)
