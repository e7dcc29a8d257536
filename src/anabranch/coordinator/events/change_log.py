"""The changes of a job, reconstructed from its events, with predictions and measurements. These are pure functions.

Because the changes are derived from events, they are known even for older stores, and for times when another
coordinator led.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from anabranch.coordinator.store import Event
from anabranch.views.changes import ChangeKind, ChangeRecord, Outcome

__all__ = ["PATTERNS", "expectation", "measurement", "records"]

_NOTHING_CAME = "nothing came to be read in the change"
PATTERNS = ("% → changing, %", "changing → %", "output % stand still for %", "output stood still for %", _NOTHING_CAME)
"""SQL LIKE patterns that match the events about changes."""

_BEGAN = re.compile(r" → changing, (?:generation (?P<generation>\d+)|deployment (?P<deployment>\d+)(?P<again>, of )?)")
_ENDED = re.compile(r"^changing → (?P<state>\w+)$")
_TOOK = re.compile(r", in (\d+\.\d) s$")
_EXPECTED = re.compile(r"^output should stand still for (\d+\.\d) s$")
_LANES = re.compile(r"^(\d+) lane\(s\) close, (\d+) follow$")
_MEASURED = re.compile(r"^output stood still for (\d+\.\d) s$")
_FORETOLD = re.compile(r"^(\d+\.\d) s was foretold$")


def expectation(pause: float, closing: int, starting: int) -> tuple[str, str]:
    """The texts ``what`` and ``why`` of an event at the start of a change, which record the prediction."""
    return f"output should stand still for {pause:.1f} s", f"{closing} lane(s) close, {starting} follow"


def measurement(pause: float, foretold: float) -> tuple[str, str]:
    """The texts ``what`` and ``why`` of the event about the measured pause. ``pause`` is 0.0 if no records arrived."""
    return (f"output stood still for {pause:.1f} s" if pause else _NOTHING_CAME), f"{foretold:.1f} s was foretold"


def records(events: Iterable[Event], deployment: int = 0) -> list[ChangeRecord]:
    """The changes that events describe, in the order of the events.

    Args:
        events: oldest first.
        deployment: the deployment of the first events; 0 if unknown.
    """
    found: list[ChangeRecord] = []
    for event in events:
        begins = _BEGAN.search(event.what)
        if begins is not None:
            _supersede(found, event)
            deployment = int(begins["deployment"] or deployment)
            found.append(
                ChangeRecord(
                    id=event.id,
                    deployment=deployment,
                    generation=int(begins["generation"] or 1),
                    kind=_kind(event, begins),
                    who=event.who,
                    why=event.why,
                    began=event.at,
                )
            )
        elif found:
            found[-1] = _after(found[-1], event)
    return found


def _supersede(found: list[ChangeRecord], event: Event) -> None:
    """Mark the change that is under way, if there is one, as undone by the change that begins with ``event``."""
    if found and found[-1].outcome == "open":
        reason = event.why.removeprefix("cancelled: ")
        found[-1] = msgspec.structs.replace(found[-1], outcome="undone", ended=event.at, reason=reason)


def _kind(event: Event, begins: re.Match[str]) -> ChangeKind:
    if event.why.startswith("cancelled: "):
        return "undo"
    if begins["deployment"]:
        return "rollback" if begins["again"] else "deploy"
    if event.why.startswith("rewound to "):
        return "rewind"
    if event.why.startswith("tasks go where they should be by racks"):
        return "assign"
    return "scale" if event.why.startswith("factor ") else "expand"


def _after(change: ChangeRecord, event: Event) -> ChangeRecord:
    """A change, updated from an event that follows its first one."""
    ended = _ENDED.search(event.what)
    if ended is not None and change.outcome == "open":
        outcome: Outcome = "failed" if ended["state"] == "failed" else "done"
        took = _TOOK.search(event.why)
        return msgspec.structs.replace(
            change,
            outcome=outcome,
            ended=event.at,
            seconds=float(took[1]) if took else event.at - change.began,
            reason=event.why if outcome == "failed" else "",
        )
    if expected := _EXPECTED.search(event.what):
        lanes = _LANES.search(event.why)
        counts = {"closing": int(lanes[1]), "starting": int(lanes[2])} if lanes else {}
        return msgspec.structs.replace(change, predicted_pause=float(expected[1]), **counts)
    measured = _MEASURED.search(event.what)
    if measured is None and event.what != _NOTHING_CAME:
        return change
    foretold = _FORETOLD.search(event.why)
    predicted = float(foretold[1]) if foretold else change.predicted_pause
    pause = float(measured[1]) if measured else 0.0
    return msgspec.structs.replace(change, measured_pause=pause, predicted_pause=predicted)
