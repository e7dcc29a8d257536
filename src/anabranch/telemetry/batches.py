"""Tells an observer, such as a trace exporter, when a lane of this process has committed a batch or has failed."""

from __future__ import annotations

from typing import Protocol

from anabranch.model.lane import Lane
from anabranch.protocol.lane_report import LaneReport

__all__ = ["Observer", "committed", "failed", "observed_by"]


class Observer(Protocol):
    """Observes batches and failures. Lanes call the methods in their own threads, so the methods must neither block nor
    raise exceptions."""

    def committed(self, lane: Lane, report: LaneReport, rows: int) -> None:
        """Called when a lane has committed a batch. ``rows`` is the number of the batch's records."""

    def failed(self, lane: Lane, report: LaneReport) -> None:
        """Called when a lane has failed."""


_observers: list[Observer] = []


def observed_by(observer: Observer | None) -> None:
    """Set the observer of this process, or remove it with None."""
    _observers[:] = [] if observer is None else [observer]


def committed(lane: Lane, report: LaneReport, rows: int) -> None:
    for each in _observers:
        each.committed(lane, report, rows)


def failed(lane: Lane, report: LaneReport) -> None:
    for each in _observers:
        each.failed(lane, report)
