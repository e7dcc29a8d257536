"""Determines how much of each job's history the store keeps, and when the rest is deleted. The history consists of
events and of the code of former versions."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Self

from anabranch import logs
from anabranch.config import CoordinatorSettings
from anabranch.coordinator.store import Store
from anabranch.errors import NotLeadingError
from anabranch.throttle import LastTold

__all__ = ["Retain", "SweepSchedule"]

_EVERY = 3600.0
_FIRST = 60.0
_DEFAULTS = CoordinatorSettings()

log = logs.get_logger()


@dataclass(frozen=True)
class Retain:
    """How much of each job's history the store keeps."""

    events: int = _DEFAULTS.retain_events
    """How many of the newest events are kept."""
    versions: int = _DEFAULTS.retain_versions
    """For how many of the latest versions the code is kept."""

    @classmethod
    def of(cls, settings: CoordinatorSettings) -> Self:
        return cls(settings.retain_events, settings.retain_versions)


class SweepSchedule:
    """Sweeps the store after a minute, and then once an hour, if the coordinator leads. Thread-safe.

    Args:
        clock: returns the current time in seconds.
    """

    def __init__(self, store: Store, retain: Retain, clock: Callable[[], float]) -> None:
        self._store = store
        self._retain = retain
        self._clock = clock
        self._due = clock() + _FIRST
        self._lock = threading.Lock()
        self._told = LastTold()
        self._unused: Mapping[str, str] = {}
        """The code that no job needed at the last sweep: see
        :func:`anabranch.coordinator.store.sweeping.sweep`.
        """

    def look(self) -> None:
        """Sweep the store if a sweep is due and this coordinator can write to the store. An error is only logged.
        The next sweep is due in an hour, even after an error.
        """
        with self._lock:
            if self._clock() < self._due:
                return
            self._due = self._clock() + _EVERY
        try:
            swept = self._store.sweep(self._retain.events, self._retain.versions, self._unused)
        except NotLeadingError:  # the coordinator that leads sweeps the store
            self._unused = {}
            return
        except Exception as error:
            log.error("old events and code can't be deleted; it is tried again in an hour", error=str(error))
            return
        self._unused = swept.unused
        self._told.keep(swept.unread.__contains__)
        for job, why in swept.unread.items():
            if self._told.is_new(why, job):
                log.error("code can't be deleted until all programs in the store can be read", job=job, error=why)
        if swept.events or swept.artifacts:
            log.info("the store was swept", events=swept.events, artifacts=len(swept.artifacts))
