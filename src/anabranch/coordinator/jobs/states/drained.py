"""Drained: everything that was read has been finished, and all windows have been emitted. The next start makes a new
deployment.
"""

from __future__ import annotations

from anabranch.coordinator.jobs.states.snapshot import Snapshot, Transition


def step(snapshot: Snapshot) -> Transition | None:
    return None
