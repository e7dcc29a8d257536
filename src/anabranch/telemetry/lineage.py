"""Sends OpenLineage events, which report a job's inputs and outputs, and the beginning and the outcome of each run."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING, Protocol

from anabranch.errors import AnabranchError, ConfigError
from anabranch.model.deployment_state import DeploymentState
from anabranch.protocol.status import JobStatus
from anabranch.telemetry.datasets import Dataset, Datasets
from anabranch.throttle import Throttled

if TYPE_CHECKING:
    from openlineage.client.event_v2 import RunEvent

__all__ = ["Jobs", "is_wanted", "reported"]

EVERY = 2.0
"""Seconds between two checks of the jobs."""
_ENDS_WITHIN = 5.0
MOST_PENDING = 1_000
"""The maximum number of events that are kept while they can't be sent. The oldest events are dropped first."""
_MOST_FAILURES = 3
"""An attempt to send the pending events stops when the events of this many jobs have failed. The attempt also stops
when an event has failed and :data:`EVERY` seconds have passed. So if the service can't be reached, an attempt doesn't
wait for the time limit of each event. In the next attempt, the events that weren't tried come first.
"""
_MOST_REFUSALS = 10
_LATER = frozenset({408, 429})
"""The statuses with which a service asks for the same request once more."""
_PRODUCER = "https://pypi.org/project/anabranch"
_ELSEWHERE = ("OPENLINEAGE_URL", "OPENLINEAGE_CONFIG", "OPENLINEAGE__TRANSPORT__TYPE")
_INSTALL = f"pip install 'anabranch[openlineage]', or unset {_ELSEWHERE[0]}"


class Jobs(Protocol):
    """The source of the jobs that are reported."""

    def jobs(self, also: Collection[str]) -> list[JobStatus] | None:
        """The jobs that this process serves, and the jobs named in ``also`` that still exist. If this process doesn't
        lead, it reports no jobs now, and the result is None.

        Raises:
            AnabranchError: the jobs can't be determined now.
        """
        ...

    def datasets(self, status: JobStatus) -> Datasets:
        """The inputs and outputs of a served job. Raises AnabranchError if they can't be determined."""
        ...


def is_wanted(environment: Mapping[str, str]) -> bool:
    """Whether OpenLineage's variables say where to send events."""
    disabled = environment.get("OPENLINEAGE_DISABLED", "").strip().lower() == "true"
    return not disabled and any(environment.get(name, "").strip() for name in _ELSEWHERE)


@contextmanager
def reported(jobs: Jobs, say: Callable[[str], None]) -> Iterator[None]:
    """Inside ``with``, report the runs of jobs in a thread, if OpenLineage's variables ask for reports.

    Args:
        jobs: the source of the jobs.
        say: a function that gets the reason if requested reports aren't possible, or if they fail temporarily. If
            reports aren't possible, the jobs run without them.
    """
    if not is_wanted(os.environ):
        yield
        return
    try:
        reporter = _reporter(jobs, say)
    except AnabranchError as error:
        say(f"warning: lineage isn't reported: {error}")
        yield
        return
    with reporter:
        yield


def _reporter(jobs: Jobs, say: Callable[[str], None]) -> _Reporter:
    try:
        from openlineage.client import OpenLineageClient
    except ImportError as error:
        raise ConfigError(f"{error.name} isn't installed", _INSTALL) from error
    try:
        client = OpenLineageClient()
    except Exception as error:  # a user's transport may raise anything
        raise ConfigError(f"OpenLineage refuses its settings: {error}", "correct the OPENLINEAGE_ variable") from error
    return _Reporter(jobs, client.emit, say)


@dataclass
class _Run:
    """A job's run that has begun. ``seen`` contains the streams that the job was known to read when ``datasets`` was
    determined."""

    id: str
    deployment: int
    seen: frozenset[str]
    datasets: Datasets


@dataclass
class _Pending:
    """An event that hasn't been sent yet."""

    event: RunEvent
    refusals: int = 0
    """How many times the service has refused the event."""
    sent_before: int = 0
    """How many events of all jobs had been sent when the service refused this event for the first time."""
    done: bool = False
    """Whether the event has been sent or given up."""

    @property
    def job(self) -> str:
        return self.event.job.name


class _Reporter:
    """Reports what has changed in the states of jobs since the previous check."""

    def __init__(self, jobs: Jobs, emit: Callable[[RunEvent], None], say: Callable[[str], None]) -> None:
        self._jobs = jobs
        self._emit = emit
        self._say = Throttled(say)
        self._runs: dict[str, _Run] = {}
        self._pending: deque[_Pending] = deque(maxlen=MOST_PENDING)
        self._failed: dict[str, int] = {}  # by job, the attempt in which an event that is still pending failed last
        self._attempts = 0
        self._sent = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="lineage", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(_ENDS_WITHIN)

    def _watch(self) -> None:
        over = False
        while not over:
            over = self._over.wait(EVERY)
            try:
                self._look()
            except Exception as error:  # pending events are still sent
                self._warn(error)
            self._send()

    def _send(self) -> None:
        """Try to send the pending events. The events of each job are sent in order: if an event fails, the job's later
        events aren't tried. The jobs whose events failed longest ago come first.
        """
        self._attempts += 1
        ends = time.monotonic() + EVERY
        failed: set[str] = set()
        for pending in sorted(self._pending, key=lambda each: self._failed.get(each.job, 0)):
            if pending.job in failed:
                continue
            if len(failed) >= _MOST_FAILURES or (failed and time.monotonic() >= ends):
                break
            try:
                self._emit(pending.event)
                self._sent += 1
                pending.done = True
            except Exception as error:  # a user's transport may raise anything
                pending.done = self._is_given_up(pending, error)
                if not pending.done:
                    failed.add(pending.job)
        self._pending = deque((each for each in self._pending if not each.done), maxlen=MOST_PENDING)
        before = {each.job: self._failed.get(each.job, 0) for each in self._pending}
        self._failed = {**before, **dict.fromkeys(failed, self._attempts)}

    def _is_given_up(self, pending: _Pending, error: Exception) -> bool:
        """Whether to give up an event that has failed. This is the case if the service has refused the event several
        times, although it has accepted other events in the meantime.
        """
        status = getattr(getattr(error, "response", None), "status_code", 0)
        if 400 <= status < 500 and status not in _LATER:
            pending.sent_before = pending.sent_before if pending.refusals else self._sent
            pending.refusals += 1
        if pending.refusals < _MOST_REFUSALS or self._sent == pending.sent_before:
            self._warn(error)
            return False
        kind = "" if pending.event.eventType is None else pending.event.eventType.value
        self._say.tell(
            f"warning: lineage of job {pending.job} lacks its event {kind}, which the service has refused "
            f"{pending.refusals} times: {type(error).__name__}: {error}"
        )
        return True

    def _look(self) -> None:
        found = self._jobs.jobs(self._runs)
        if found is None:
            self._runs.clear()
        for status in found or ():
            try:
                self._see(status)
            except Exception as error:  # concerns only this job, for example settings of another version
                self._warn(error)

    def _see(self, status: JobStatus) -> None:
        run = self._runs.get(status.job)
        if run is not None and (not status.state.active or status.deployment != run.deployment):
            del self._runs[status.job]
            failed = status.state is DeploymentState.FAILED and status.deployment == run.deployment
            self._note("FAIL" if failed else "COMPLETE", status, run)
            run = None
        if not (status.served and status.state.runs):
            return
        seen = frozenset(status.inputs)
        if run is None:
            run = self._runs[status.job] = _Run(_new_id(), status.deployment, seen, self._jobs.datasets(status))
            self._note("START", status, run)
        elif seen != run.seen:
            before, run.datasets, run.seen = run.datasets, self._jobs.datasets(status), seen
            if run.datasets != before:
                self._note("RUNNING", status, run)

    def _note(self, kind: str, status: JobStatus, run: _Run) -> None:
        from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
        from openlineage.client.facet_v2 import RunFacet, error_message_run, job_type_job, processing_engine_run

        ours = version("anabranch")
        facets: dict[str, RunFacet] = {
            "processing_engine": processing_engine_run.ProcessingEngineRunFacet(version=ours, name="anabranch")
        }
        if kind == "FAIL":
            facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(status.error or "", "PYTHON")
        job_type = job_type_job.JobTypeJobFacet("STREAMING", "ANABRANCH", "JOB")
        namespace = os.environ.get("OPENLINEAGE_NAMESPACE", "").strip() or "default"
        self._pending.append(
            _Pending(
                RunEvent(
                    eventType=RunState[kind],
                    eventTime=datetime.now(UTC).isoformat(),
                    run=Run(runId=run.id, facets=facets),
                    job=Job(namespace=namespace, name=status.job, facets={"jobType": job_type}),
                    inputs=[InputDataset(*_named(each)) for each in run.datasets.inputs],
                    outputs=[OutputDataset(*_named(each)) for each in run.datasets.outputs],
                    producer=f"{_PRODUCER}/{ours}",
                )
            )
        )

    def _warn(self, error: Exception) -> None:
        told = error.what if isinstance(error, AnabranchError) else f"{type(error).__name__}: {error}"
        self._say(f"warning: lineage can't be reported now: {told}")


def _new_id() -> str:
    from openlineage.client.uuid import generate_new_uuid

    return str(generate_new_uuid())


def _named(dataset: Dataset) -> tuple[str, str]:
    return dataset.namespace, dataset.name
