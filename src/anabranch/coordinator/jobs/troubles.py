"""Keeps an error that concerns only one job from holding up the other jobs, and records the error."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from anabranch import logs
from anabranch.coordinator.jobs.running_job import RunningJob
from anabranch.coordinator.store import Event, Store
from anabranch.errors import AnabranchError, NotLeadingError, StoreUnavailableError

__all__ = ["Unread", "isolated", "unfenced"]

_GENERAL = (StoreUnavailableError, NotLeadingError)
"""The errors that concern all jobs, not just the one for which they were raised."""

log = logs.get_logger()


class Unread:
    """The reasons why jobs couldn't be adopted again, by job."""

    def __init__(self) -> None:
        self.jobs: dict[str, str] = {}

    def adopted(self, job: str, adopt: Callable[[str], bool]) -> bool:
        """Call ``adopt`` for a job, and return whether the job was adopted. An error that concerns only this job isn't
        raised. It is logged, unless the same error was logged last time."""
        try:
            adopted = adopt(job)
        except _GENERAL:
            raise
        except Exception as error:
            found = _text(error)
            if self.jobs.get(job) != found:
                _log(job, "the job can't be read from the store", error)
            self.jobs = {**self.jobs, job: found}
            return False
        self.jobs = {each: why for each, why in self.jobs.items() if each != job}
        return adopted


def _text(error: Exception) -> str:
    return str(error) if isinstance(error, AnabranchError) else f"{type(error).__name__}: {error}"


def _log(job: str, what: str, error: Exception) -> None:
    log.error(f"{what}; it is tried again", job=job, error=_text(error))
    log.debug(what, job=job, trace="".join(traceback.format_exception(error)))


@contextmanager
def isolated(store: Store, running_job: RunningJob, what: str, at: float) -> Iterator[None]:
    """Inside ``with``, an error that concerns only this job ends the body, but isn't raised. Instead, the job's
    ``progress.troubles`` contains the error until a later call for the same ``what`` succeeds. Unless the job
    already had the same error, the error is also logged, and recorded as an event.

    Args:
        what: a sentence that says what can't be done if the body fails.
        at: the current time, in seconds since 1970.
    """
    progress = running_job.progress
    try:
        yield
    except _GENERAL:
        raise
    except Exception as error:
        found = _text(error)
        if progress.troubles.get(what) == found:
            return
        _log(running_job.job, what, error)
        store.note([Event(kind="other", job=running_job.job, at=at, who="coordinator", what=what, why=found)])
        progress.troubles = {**progress.troubles, what: found}
    else:
        if what in progress.troubles:
            progress.troubles = {each: its for each, its in progress.troubles.items() if each != what}


def unfenced(running_job: RunningJob) -> dict[tuple[str, int], str]:
    """Why lanes of a job can't be fenced yet, by lane and epoch."""
    known = ((running_job.known.get(lane), epoch, why) for (lane, epoch), why in running_job.progress.unfenced.items())
    return {
        (lane.id, epoch): why
        for lane, epoch, why in known
        if lane is not None and lane.unfenced and lane.epoch == epoch
    }
