"""What a store knows about a job's past: which buckets moved when a generation began, and when its lanes ran."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from anabranch.coordinator import lane_times, queries
from anabranch.coordinator.lane_times import Span
from anabranch.coordinator.store import EventRange, Store
from anabranch.errors import NotFoundError, UsageError
from anabranch.model import moves as bucket_moves
from anabranch.model.lane import Lane
from anabranch.views.changes import Moves
from anabranch.views.lane_times import LaneTimes

__all__ = ["moves", "times_of_lanes"]

_HOUR = 3600.0
_FIRST = "planned deployment "
"""The beginning of the text of a job's first event."""


def moves(store: Store, job: str, at: float, deployment: int = 0, generation: int = 0) -> Moves:
    """Which buckets got another seat when a generation began. 0 means the last deployment, and its last generation.

    Raises:
        NotFoundError: the job, deployment or generation doesn't exist, or the generation is the job's first one.
    """
    last = queries.deployment(store, job, deployment or None)
    number = generation or last.generation
    if number > last.generation:
        raise NotFoundError(
            f"deployment {last.id} of job {job!r} has no generation {number}", f"its last one is {last.generation}"
        )
    model = store.model(job, last.id, number)
    if number > 1:
        former = store.model(job, last.id, number - 1)
    elif model.replaces:
        former = queries.model_of(store, job, model.replaces)
    else:
        raise NotFoundError(
            f"nothing was before generation 1 of deployment {last.id} of job {job!r}",
            f"ask for a change: anabranch show changes {job} has them",
        )
    return Moves(
        at=at,
        job=job,
        deployment=last.id,
        generation=number,
        former=(former.run_id, former.generation),
        stages=bucket_moves.compared(former, model),
    )


def times_of_lanes(
    store: Store, job: str, at: float, since: float = 0.0, until: float = 0.0, known: Mapping[str, Lane] | None = None
) -> LaneTimes:
    """When the lanes that were open from ``since`` to before ``until`` ran (0.0: the last hour, until now).

    Args:
        known: all lanes that the job ever had, by id; None: they are looked up.

    Raises:
        NotFoundError: there is no such job.
        UsageError: the span ends before it begins.
    """
    last = queries.deployment(store, job)
    end = until or at
    begin = since or end - _HOUR
    if end <= begin:
        raise UsageError("the span ends before it begins", "give a later end: to=")
    events = store.events(job, lane_times.MOST_EVENTS, EventRange(patterns=lane_times.PATTERNS))
    stopped = None if last.state.runs else last.changed_at
    lanes = queries.known_lanes(store, job) if known is None else known
    view = lane_times.lane_times(job, lanes, events, Span(at, begin, end, stopped))
    oldest = store.events(job, 1, EventRange(after=0))
    whole = bool(oldest) and oldest[0].what.startswith(_FIRST) and len(events) < lane_times.MOST_EVENTS
    return msgspec.structs.replace(view, known_since=None) if whole else view
