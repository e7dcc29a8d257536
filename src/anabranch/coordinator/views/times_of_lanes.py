"""Finds out from the store's events when the lanes of a job ran."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from anabranch.coordinator.events import lane_times
from anabranch.coordinator.events.lane_times import Span
from anabranch.coordinator.store import EventRange, Store, stored_jobs
from anabranch.errors import UsageError
from anabranch.model.lane import Lane
from anabranch.views.lane_times import LaneTimes

__all__ = ["times_of_lanes"]

_HOUR = 3600.0


def times_of_lanes(
    store: Store, job: str, at: float, since: float = 0.0, until: float = 0.0, known: Mapping[str, Lane] | None = None
) -> LaneTimes:
    """The runs of all lanes that were running at some time within a span. A lane that isn't closed is included even if
    none of its runs is known.

    Args:
        at: the current time, in seconds since 1970.
        since: the beginning of the span, in seconds since 1970; 0.0 for an hour before its end.
        until: the end of the span, in seconds since 1970; 0.0 for now.
        known: all lanes that the job has ever had, by id; None to look them up.

    Raises:
        NotFoundError: there is no such job.
        UsageError: the end of the span isn't after its beginning.
    """
    last = stored_jobs.deployment(store, job)
    end = until or at
    begin = since or end - _HOUR
    if end <= begin:
        raise UsageError("the span ends before it begins", "give a later end: to=")
    events = store.events(job, lane_times.MOST_EVENTS, EventRange(about="lanes"))
    stopped = None if last.state.runs else last.changed_at
    lanes = stored_jobs.known_lanes(store, job) if known is None else known
    view = lane_times.lane_times(job, lanes, events, Span(at, begin, end, stopped))
    oldest = store.events(job, 1, EventRange(after=0))
    first = stored_jobs.deployment(store, job, 1)
    whole = bool(oldest) and oldest[0].at <= first.created_at and len(events) < lane_times.MOST_EVENTS
    return msgspec.structs.replace(view, known_since=None) if whole else view
