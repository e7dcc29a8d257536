"""Derives, from the texts of events, the fields that format 5 added to events.

The texts come from older versions of anabranch. So these rules never change, and neither does the migration step that
uses the rules.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

__all__ = ["fields_of"]

_LANE = re.compile(r"^lane (\S+) (.*)$", re.DOTALL)
_LOST = re.compile(r"^(\S+:\S+:\d+) has lost its seat$")
_CONTAINER = re.compile(r"^\S+:\S+:\d+$")
_GENERATION = re.compile(r", generation (\d+)$")
_NOTHING_CAME = "nothing came to be read in the change"

_KINDS: Sequence[tuple[str, re.Pattern[str]]] = [
    ("fence", re.compile(r"^lane \S+ (is fenced|can't be fenced yet)$|^new folders are made for ")),
    ("lane", re.compile(r"^lane ")),
    ("seat", re.compile(r"has lost its seat$|^(took|left) seat |^seat \S+ closes ")),
    ("change", re.compile(rf" → changing, |^the change |^output (should stand|stood) still |^{_NOTHING_CAME}$")),
    ("drain", re.compile(r"^drain, up to |^the user cancelled the drain$|^all is taken in|^the drain takes in ")),
    ("input", re.compile(r"^the job doesn't go along with its inputs$")),
    ("state", re.compile(r" → |^planned deployment |^the stop is hastened$")),
]
"""The first rule that matches counts."""

_MARKS: Sequence[tuple[str, re.Pattern[str]]] = [
    ("started", re.compile(r"^runs$")),
    ("retried", re.compile(r"^failed and is tried again")),
    ("failed", re.compile(r"^failed$")),
    ("ended", re.compile(r"^(ended|never began)$")),
    ("fenced", re.compile(r"^is fenced$")),
]

_BEGAN = re.compile(r" → changing, (?:generation \d+|deployment (?P<deployment>\d+)(?P<again>, of )?)")
_ENDED = re.compile(r"^changing → (\w+)$")
_TOOK = re.compile(r", in (\d+\.\d) s$")
_EXPECTED = re.compile(r"^output should stand still for (\d+\.\d) s$")
_LANES = re.compile(r"^(\d+) lane\(s\) close, (\d+) follow$")
_MEASURED = re.compile(r"^output stood still for (\d+\.\d) s$")
_FORETOLD = re.compile(r"^(\d+\.\d) s was foretold$")
_CANCELLED = "cancelled: "


def fields_of(who: str, what: str, why: str) -> dict[str, Any]:
    """For an event with these texts, the columns that format 5 added to events, each with its value."""
    about_lane, lost, generation = _LANE.search(what), _LOST.search(what), _GENERATION.search(what)
    change = _change(what, why)
    return {
        "kind": who if who in ("launcher", "autoscale") else _first(_KINDS, what) or "other",
        "lane": about_lane[1] if about_lane else "",
        "container": lost[1] if lost else who if _CONTAINER.search(who) else "",
        "generation": int(generation[1]) if generation else 0,
        "mark": _first(_MARKS, about_lane[2]) if about_lane else None,
        "change": None if change is None else json.dumps({"version": 1, **change}),
    }


def _first(rules: Sequence[tuple[str, re.Pattern[str]]], text: str) -> str | None:
    return next((name for name, pattern in rules if pattern.search(text)), None)


def _change(what: str, why: str) -> dict[str, Any] | None:
    if began := _BEGAN.search(what):
        undone_because = why.removeprefix(_CANCELLED) if why.startswith(_CANCELLED) else ""
        deployment = int(began["deployment"] or 0)
        return {"kind": _kind(began, why), "deployment": deployment, "undoneBecause": undone_because}
    if ended := _ENDED.search(what):
        took = _TOOK.search(why)
        outcome = "failed" if ended[1] == "failed" else "done"
        return {"outcome": outcome, "seconds": float(took[1]) if took else None}
    if expected := _EXPECTED.search(what):
        lanes = _LANES.search(why)
        counts = {"closing": int(lanes[1]), "starting": int(lanes[2])} if lanes else {}
        return {"predictedPause": float(expected[1]), **counts}
    measured = _MEASURED.search(what)
    if measured is None and what != _NOTHING_CAME:
        return None
    foretold = _FORETOLD.search(why)
    return {
        "measuredPause": float(measured[1]) if measured else 0.0,
        "predictedPause": float(foretold[1]) if foretold else None,
    }


def _kind(began: re.Match[str], why: str) -> str:
    if why.startswith(_CANCELLED):
        return "undo"
    if began["deployment"]:
        return "rollback" if began["again"] else "deploy"
    if why.startswith("rewound to "):
        return "rewind"
    if why.startswith("tasks go where they should be by racks"):
        return "assign"
    return "scale" if why.startswith("factor ") else "expand"
