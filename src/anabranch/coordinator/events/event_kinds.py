"""Derives the kind and the subject of an event from its text, which also works for events of older stores. These are
pure functions.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, get_args

from anabranch.coordinator.store import Event

__all__ = ["KINDS", "EventKind", "LoggedEvent", "kind_of", "logged"]

EventKind = Literal["state", "change", "lane", "seat", "fence", "drain", "launcher", "autoscale", "input", "other"]
KINDS: tuple[str, ...] = get_args(EventKind)


class LoggedEvent(Event, frozen=True, kw_only=True):
    """An event with its kind and its subject."""

    kind: EventKind = "other"
    lane: str = ""
    """The lane that the event is about; empty if it isn't about a lane."""
    container: str = ""
    """The container that the event is about, or that reported it; empty if there is none."""
    generation: int = 0
    """The generation that began with the event; 0 if none began."""


_LANE = re.compile(r"^lane (\S+) ")
_CONTAINER = re.compile(r"^(\S+:\S+:\d+) has lost its seat$")
_OWN_NAME = re.compile(r"^\S+:\S+:\d+$")
_GENERATION = re.compile(r", generation (\d+)$")
_RULES: Sequence[tuple[EventKind, re.Pattern[str]]] = [
    ("fence", re.compile(r"^lane \S+ (is fenced|can't be fenced yet)$|^new folders are made for ")),
    ("lane", re.compile(r"^lane ")),
    ("seat", re.compile(r"has lost its seat$|^(took|left) seat |^seat \S+ closes ")),
    (
        "change",
        re.compile(
            r" → changing, |^the change |^output (should stand|stood) still |^nothing came to be read in the change$"
        ),
    ),
    ("drain", re.compile(r"^drain, up to |^the user cancelled the drain$|^all is taken in|^the drain takes in ")),
    ("input", re.compile(r"^the job doesn't go along with its inputs$")),
    ("state", re.compile(r" → |^planned deployment |^the stop is hastened$")),
]
"""The rules for the kinds of events. The first one that matches counts."""


def kind_of(event: Event) -> EventKind:
    """The kind of an event. Events of the launcher and of the autosizer have kinds of their own. For all other events,
    the kind follows from the text.
    """
    if event.who == "launcher":
        return "launcher"
    if event.who == "autoscale":
        return "autoscale"
    return next((kind for kind, pattern in _RULES if pattern.search(event.what)), "other")


def logged(event: Event) -> LoggedEvent:
    """An event with its kind and its subject."""
    lane, lost = _LANE.search(event.what), _CONTAINER.search(event.what)
    by_container = event.who if _OWN_NAME.search(event.who) else ""
    generation = _GENERATION.search(event.what)
    return LoggedEvent(
        id=event.id,
        job=event.job,
        at=event.at,
        who=event.who,
        what=event.what,
        why=event.why,
        kind=kind_of(event),
        lane=lane[1] if lane else "",
        container=lost[1] if lost else by_container,
        generation=int(generation[1]) if generation else 0,
    )
