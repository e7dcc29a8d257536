"""Reset: the job's positions and state are deleted. The next deployment begins like the first deployment of a new
job."""

from __future__ import annotations

from anabranch.coordinator.jobs.states.snapshot import Snapshot, Transition


def step(snapshot: Snapshot) -> Transition | None:
    return None
