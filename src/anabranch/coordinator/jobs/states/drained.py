"""Drained: nothing is in flight, and all windows have been emitted. The next start makes another deployment."""

from __future__ import annotations

from anabranch.coordinator.jobs.states.snapshot import Snapshot, Transition


def step(snapshot: Snapshot) -> Transition | None:
    return None
