"""A compact form of a plan: the lanes that a change closes and starts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import msgspec

from anabranch.model.document import Document
from anabranch.model.lane import Lane

__all__ = ["COLUMNS", "Basis", "Outline", "digest", "outlined"]

COLUMNS = ("id", "stage", "seat", "tasks", "ssps", "stateful", "predecessors")
_DIGITS = 16


class Basis(Document, frozen=True, kw_only=True):
    """The deployment and the generation for which a plan was made. ``digest`` is the hash of the plan's result (see
    :func:`digest`); empty if the result isn't compared.
    """

    deployment: int
    generation: int
    digest: str = ""


class Outline(Document, frozen=True, kw_only=True):
    """The lanes that a plan closes and starts, as rows of ``columns``. Tasks and SSPs are only counted. New lanes get
    other ids when the plan is applied. ``kept`` is the number of open lanes that keep running.
    """

    columns: tuple[str, ...] = COLUMNS
    closing: tuple[tuple[Any, ...], ...] = ()
    starting: tuple[tuple[Any, ...], ...] = ()
    kept: int = 0


def outlined(closing: Iterable[Lane], starting: Iterable[Lane], kept: int) -> Outline:
    """The outline of a plan."""
    return Outline(closing=tuple(map(_row, closing)), starting=tuple(map(_row, starting)), kept=kept)


def digest(closing: Iterable[Lane], starting: Iterable[Lane], *rest: Any) -> str:
    """A hash of a plan's result, independent of the ids of new lanes. ``rest`` contains the parts of the result that
    aren't lanes.
    """
    hashed = hashlib.sha256(msgspec.json.encode([lane.id for lane in closing]))
    for lane in starting:  # one by one: encoding all at once would keep other threads waiting
        its = lane.stage, lane.group, lane.seat, lane.tasks, lane.ssps, lane.broadcast, lane.factor, lane.predecessors
        hashed.update(msgspec.json.encode(its))
    hashed.update(msgspec.json.encode(rest))
    return hashed.hexdigest()[:_DIGITS]


def _row(lane: Lane) -> tuple[Any, ...]:
    return (lane.id, lane.stage, lane.seat, len(lane.tasks), len(lane.ssps), lane.stateful, lane.predecessors)
