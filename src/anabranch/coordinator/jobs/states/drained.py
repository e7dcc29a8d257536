"""Drained: everything up to the drain's end offsets has been processed, all windows have been emitted, and all timers
have fired. The next start begins a new deployment.
"""

from __future__ import annotations

from anabranch.coordinator.jobs.states.snapshot import Snapshot, Transition


def step(snapshot: Snapshot) -> Transition | None:
    return None
