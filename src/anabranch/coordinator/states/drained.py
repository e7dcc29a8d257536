"""Drained: nothing is in flight, and all windows are out. What is started next is another deployment."""

from __future__ import annotations

from anabranch.coordinator.states.snapshot import Snapshot, Transition


def step(snapshot: Snapshot) -> Transition | None:
    return None
