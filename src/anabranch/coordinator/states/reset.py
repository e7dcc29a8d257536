"""Reset: positions and state are forgotten. The deployment that is started next begins as a new job does."""

from __future__ import annotations

from anabranch.coordinator.states.snapshot import Snapshot, Transition


def step(snapshot: Snapshot) -> Transition | None:
    return None
