"""Reset: positions and state are forgotten. The next deployment begins like a new job."""

from __future__ import annotations

from anabranch.coordinator.jobs.states.snapshot import Snapshot, Transition


def step(snapshot: Snapshot) -> Transition | None:
    return None
