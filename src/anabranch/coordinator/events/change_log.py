"""The changes to a job, reconstructed from its events, with predictions and measurements. Pure functions.

The changes are known as long as the store keeps their events, even if another coordinator or an older version of
anabranch stored these events.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from anabranch.coordinator.store import ChangeStep, Event
from anabranch.views.changes import ChangeRecord

__all__ = ["records"]

_FIGURES = ("closing", "starting", "predicted_pause", "measured_pause", "paused_lane")


def records(events: Iterable[Event], deployment: int = 0) -> list[ChangeRecord]:
    """The changes that events describe, in the order of the events.

    Args:
        events: oldest first.
        deployment: the deployment of the first changes, if their events don't name it; 0 if unknown.
    """
    found: list[ChangeRecord] = []
    for event in events:
        step = event.change
        if step is None:
            continue
        if step.kind is not None:
            if found and found[-1].outcome == "open":
                found[-1] = _undone(found[-1], event, step)
            deployment = step.deployment or deployment
            found.append(
                ChangeRecord(
                    id=event.id,
                    deployment=deployment,
                    generation=event.generation or 1,
                    kind=step.kind,
                    who=event.who,
                    why=event.why,
                    began=event.at,
                )
            )
        elif found:
            found[-1] = _after(found[-1], event, step)
    return found


def _undone(change: ChangeRecord, event: Event, step: ChangeStep) -> ChangeRecord:
    return msgspec.structs.replace(change, outcome="undone", ended=event.at, reason=step.undone_because or event.why)


def _after(change: ChangeRecord, event: Event, step: ChangeStep) -> ChangeRecord:
    if step.outcome is not None and change.outcome == "open":
        return msgspec.structs.replace(
            change,
            outcome=step.outcome,
            ended=event.at,
            seconds=event.at - change.began if step.seconds is None else step.seconds,
            reason=event.why if step.outcome == "failed" else "",
        )
    figures = {name: getattr(step, name) for name in _FIGURES}
    return msgspec.structs.replace(change, **{name: each for name, each in figures.items() if each is not None})
