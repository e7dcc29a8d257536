"""Answers requests from the dashboard and the CLI for information about jobs and the coordinator. Jobs are locked only
while a snapshot is made.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from importlib import metadata

from anabranch.coordinator.events import change_log
from anabranch.coordinator.jobs.registry import JobRegistry
from anabranch.coordinator.jobs.running_job import RunningJob
from anabranch.coordinator.store import EventRange, stored_jobs
from anabranch.coordinator.views import diagnosis, live_view, moves, overviews, partition_view, times_of_lanes
from anabranch.coordinator.views.histories import Histories
from anabranch.errors import NotFoundError, UsageError
from anabranch.model.job_model import JobModel, StageModel
from anabranch.model.names import parse
from anabranch.model.naming import check_name
from anabranch.operators.rules import is_boundary
from anabranch.planning import stages
from anabranch.views.about import (
    CoordinatorInfo,
    DeploymentInfo,
    GraphEdge,
    GraphStage,
    GraphView,
    Partitions,
    Placement,
)
from anabranch.views.changes import ChangeRecord, Moves
from anabranch.views.events import KINDS, LoggedEvent
from anabranch.views.findings import Finding
from anabranch.views.lane_times import LaneTimes
from anabranch.views.live import Live
from anabranch.views.overview import JobOverview, Overview
from anabranch.views.table import Table

__all__ = ["Reads"]

_LOST_SHOWN = 5
"""The maximum number of processes that are shown although they have lost or returned their seats."""
_MOST_ROWS = 2_000
_MOST_CHANGES, _EVENTS_OF_A_CHANGE = 1_000, 5
_LAST_ID = 2**62
_MOST_CELLS = 20_000
_DEPLOYMENTS = 50
_WATCHED = 30.0
"""After a request for partitions, processes report the watermark of each SSP for this many seconds."""


class Reads:
    """A coordinator's read-only operations. Thread-safe.

    Args:
        invalid_heartbeats: returns :attr:`Membership.invalid_heartbeats`.
        links: see :attr:`anabranch.config.CoordinatorSettings.links`.
    """

    def __init__(
        self, registry: JobRegistry, invalid_heartbeats: Callable[[], int], links: Mapping[str, str] | None = None
    ) -> None:
        self._registry = registry
        self._store = registry.store
        self._invalid_heartbeats = invalid_heartbeats
        self._links = dict(links or {})
        self.histories = Histories(registry)
        self._stored_overviews = overviews.StoredOverviews(registry)

    def snapshot(self, job: str, watched_for: float = 0.0) -> RunningJob | None:
        """A snapshot of a job; None if the job isn't served here. For ``watched_for`` seconds, the job's processes
        report the watermark of each SSP.
        """
        check_name("job", job)
        with self._registry.locked_as_seen() as jobs:
            if job not in jobs:
                return None
            if watched_for:
                jobs[job].seats.watched_until = self._registry.clock() + watched_for
            return jobs[job].snapshot()

    def listening(self, wake: Callable[[], object]) -> AbstractContextManager[None]:
        """A context in which ``wake`` is called after this process has stored events; see :meth:`Store.watched`."""
        return self._store.watched(wake)

    def info(self) -> CoordinatorInfo:
        """Information about this coordinator."""
        led_by = self._store.leader()
        leader = None if led_by is None or led_by.resigned else led_by.holder
        return CoordinatorInfo(
            at=self._registry.now(),
            program=metadata.version("anabranch"),
            leads=self._store.leads(),
            leader=leader,
            lease=self._registry.lease,
            grace=self._registry.grace,
            invalid_heartbeats=self._invalid_heartbeats(),
            store=self._store.url,
            links=self._links,
        )

    def overview(self) -> Overview:
        """All jobs, sorted by name; see :func:`stored_jobs.all_read`."""
        led_by = self._store.leader()
        revisions = functools.cache(self._store.revisions)  # not needed if all jobs are served here

        def line(job: str) -> JobOverview:
            found = self.snapshot(job)
            if found is None:
                return self._stored_overviews.of(job, revisions().get(job))
            return overviews.served(found, self._registry, self.histories.lag_trend(job))

        lines = tuple(stored_jobs.all_read(self._store, line, JobOverview.unread))
        self._stored_overviews.keep({each.job for each in lines})
        return Overview(
            at=self._registry.now(),
            leads=self._store.leads(),
            leader=None if led_by is None or led_by.resigned else led_by.holder,
            jobs=lines,
        )

    def findings(self, job: str) -> list[Finding]:
        """What holds a job back, the most severe finding first. Raises NotFoundError if the job doesn't exist."""
        found = self.snapshot(job)
        if found is None:
            status, change = stored_jobs.status(self._store, job), None
        else:
            lost = [] if self._registry.grace is None else self._store.lost(job, _LOST_SHOWN)
            status = self._registry.status(found, lost)
            change = live_view.change_of(found, self._registry.now() - self._registry.clock())
        return diagnosis.findings(status, self._registry.now(), self._registry.lease, change)

    def live(self, job: str) -> Live:
        """The current metrics of a job. Raises NotFoundError if the job doesn't exist."""
        found = self.snapshot(job)
        at, clock = self._registry.now(), self._registry.clock()
        if found is not None:
            lost = [] if self._registry.grace is None else self._store.lost(job, _LOST_SHOWN)
            return live_view.live(found, at, clock, self._registry.lease, lost)
        its = stored_jobs.deployment(self._store, job)
        seen = self._stored_overviews.of(job)
        return live_view.stored(
            {
                "at": at,
                "rev": f"{its.id}.{its.generation}.{its.changed_at}",
                "job": job,
                "state": its.state,
                "since": its.changed_at,
                "deployment": its.id,
                "generation": its.generation,
                "factor": seen.factor,
                "seats": seen.seats,
                "error": its.error,
                "drain": its.drain,
            },
            self._store.open_lanes(job),
            self._store.containers(job),
        )

    def generation_tag(self, job: str) -> str:
        """A tag that changes whenever a job enters another generation. Raises NotFoundError if the job doesn't
        exist."""
        found = self.snapshot(job)
        if found is not None:
            return f"{found.deployment}.{found.generation}"
        its = stored_jobs.deployment(self._store, job)
        return f"{its.id}.{its.generation}"

    def model(self, job: str) -> JobModel:
        """The job model of the current generation of a job's last deployment. Raises NotFoundError if the job doesn't
        exist.
        """
        found = self.snapshot(job)
        return stored_jobs.model(self._store, job) if found is None else found.model

    def events(self, job: str, limit: int, wanted: EventRange) -> list[LoggedEvent]:
        """The last ``limit`` events that match. If ``wanted.after`` is set, the first ``limit`` matching events after
        this id are returned instead. The oldest event always comes first.

        Raises:
            NotFoundError: there is no such job.
            UsageError: the limit is too small or too large, or there is no such kind of event.
        """
        if not 1 <= limit <= stored_jobs.MOST_EVENTS:
            raise UsageError(f"{limit} events can't be asked for", f"ask for 1 to {stored_jobs.MOST_EVENTS}")
        if wanted.kind and wanted.kind not in KINDS:
            raise UsageError(f"there is no kind of event {wanted.kind[:40]!r}", f"ask for one of {', '.join(KINDS)}")
        stored_jobs.deployment(self._store, job)
        return [each.logged() for each in self._store.events(job, limit, wanted)]

    def last_event(self, job: str) -> int:
        """The id of the last event of a job; 0 if there is none."""
        check_name("job", job)
        return max((each.id for each in self._store.events(job, 1)), default=0)

    def changes(self, job: str, limit: int = 50, before: int = 0) -> list[ChangeRecord]:
        """The latest changes to a job, newest first. Unless ``before`` is 0, only changes before the event with this id
        are returned.

        Raises:
            NotFoundError: there is no such job.
            UsageError: the limit isn't from 1 to 1,000.
        """
        _check_limit(limit, _MOST_CHANGES)
        stored_jobs.deployment(self._store, job)
        wanted = EventRange(about="changes", before=min(before, _LAST_ID) or None)
        found = change_log.records(self._store.events(job, _EVENTS_OF_A_CHANGE * limit, wanted))
        return found[: -limit - 1 : -1]

    def moves(self, job: str, deployment: int = 0, generation: int = 0) -> Moves:
        """See :func:`anabranch.coordinator.views.moves.moves`."""
        now = self._registry.now()
        return moves.moves(self._store, job, now, min(deployment, _LAST_ID), min(generation, _LAST_ID))

    def lane_times(self, job: str, since: float = 0.0, until: float = 0.0) -> LaneTimes:
        """See :func:`anabranch.coordinator.views.times_of_lanes.times_of_lanes`."""
        served = self.snapshot(job)
        known = None if served is None else served.known
        return times_of_lanes.times_of_lanes(self._store, job, self._registry.now(), since, until, known)

    def graph(self, job: str, deployment: int = 0) -> GraphView:
        """The graph of a deployment. If ``deployment`` is 0, the graph of the last deployment. Raises NotFoundError if
        there is no such deployment.
        """
        its = stored_jobs.deployment(self._store, job, min(deployment, _LAST_ID) or None)
        graph, model = self._store.graph(job, its.id), self._store.model(job, its.id, its.generation)
        by_name = {each.stage: each for each in model.stages}
        found, edges = [], []
        writers: dict[str, str] = {}
        for cut in stages.cut(graph):
            stage = by_name.get(cut.id)
            if stage is None:
                continue
            outputs = [
                stages.stream_of(graph, sink) for sink in cut.sinks if "stream" in sink.args or is_boundary(sink)
            ]
            writers |= {stages.stream_of(graph, sink): cut.id for sink in cut.sinks if is_boundary(sink)}
            found.append(
                GraphStage(
                    stage=cut.id,
                    nodes=tuple(node.id for node in cut.nodes),
                    key=stage.key,
                    stateful=stage.stateful,
                    inputs=stage.inputs,
                    outputs=tuple(dict.fromkeys(outputs)),
                    tasks=len(stage.tasks),
                )
            )
        for each in found:
            for name in each.inputs:
                stream = name.partition("/")[2]
                if stream in writers:
                    edges.append(GraphEdge(from_stage=writers[stream], to_stage=each.stage, stream=name))
        return GraphView(
            job=job,
            deployment=its.id,
            nodes=graph.nodes,
            stages=tuple(found),
            edges=tuple(edges),
            promises=dict(its.promises),
        )

    def deployments(self, job: str) -> list[DeploymentInfo]:
        """The last 50 deployments of a job, newest first. Raises NotFoundError if the job doesn't exist."""
        stored_jobs.deployment(self._store, job)
        numbers = self._store.deployment_numbers(job, _DEPLOYMENTS)
        return [self._deployment(job, number) for number in numbers]

    def _deployment(self, job: str, number: int) -> DeploymentInfo:
        its = stored_jobs.deployment(self._store, job, number)
        return DeploymentInfo(
            id=its.id,
            state=its.state,
            generation=its.generation,
            version_of=self._store.model(job, number, 1).again or number,
            created_at=its.created_at,
            changed_at=its.changed_at,
            artifact="" if its.program is None else its.program.artifact,
            file="" if its.program is None else its.program.file,
            error=its.error,
        )

    def placement(self, job: str, stage: str = "", start: int = 0, limit: int = _MOST_CELLS) -> Placement:
        """For one stage, how many buckets of each partition each seat has. If ``stage`` is empty, the job's first stage
        is used. Returns at most ``limit`` partitions, from index ``start`` on. Partitions that the grouper puts into
        one task count as one partition.

        Raises:
            NotFoundError: there is no such job or stage.
            UsageError: the limit is too small or too large.
        """
        _check_limit(limit, _MOST_CELLS)
        model = self.model(job)
        its = _stage(model, stage)
        seat_of = model.seats_of_tasks()[its.stage]
        places = {container.seat: place for place, container in enumerate(model.containers)}
        per_partition: dict[str, Counter[int]] = {}
        for task in its.tasks:
            per_partition.setdefault(_base(task.name), Counter())[places[seat_of[task.name]]] += 1
        shown = list(per_partition.items())[start : start + limit]
        cells = [(n, seat, count) for n, (_, seats) in enumerate(shown) for seat, count in sorted(seats.items())]
        return Placement(
            at=self._registry.now(),
            job=job,
            deployment=model.run_id,
            generation=model.generation,
            factor=model.factor,
            stage=its.stage,
            stages=tuple(each.stage for each in model.stages),
            start=start,
            total=len(per_partition),
            seats=tuple(places),
            racks=tuple(container.rack for container in model.containers),
            partitions=tuple(name for name, _ in shown),
            cells=Table.of(("partition", "seat", "buckets"), cells),
        )

    def partitions(
        self, job: str, stage: str = "", lane: str = "", sort: str = "-lag", start: int = 0, limit: int = 100
    ) -> Partitions:
        """The partitions that a job reads. For the parameters, see :class:`partition_view.PartitionFilter`.

        Raises:
            NotFoundError: there is no such job.
            UsageError: ``sort`` names no column, or the limit is too small or too large.
        """
        _check_limit(limit, _MOST_ROWS)
        wanted = partition_view.PartitionFilter(stage, lane, sort, start, limit)
        found = self.snapshot(job, watched_for=_WATCHED)
        if found is not None:
            return partition_view.partitions(job, self._registry.now(), found.lanes, found.reports, wanted)
        stored_jobs.deployment(self._store, job)
        return partition_view.partitions(job, self._registry.now(), self._store.open_lanes(job), None, wanted)


def _stage(model: JobModel, name: str) -> StageModel:
    found = next((each for each in model.stages if not name or each.stage == name), None)
    if found is None:
        its = ", ".join(each.stage for each in model.stages)
        raise NotFoundError(f"job {model.job!r} has no stage {name[:40]!r}", f"its stages: {its}")
    return found


def _base(task: str) -> str:
    """The name that a task has at factor 1. A name of another form, from a user's own grouper, stays as it is."""
    try:
        return str(parse(task).base)
    except UsageError:
        return task


def _check_limit(limit: int, most: int) -> None:
    if not 1 <= limit <= most:
        raise UsageError(f"{limit} rows can't be asked for", f"ask for 1 to {most}")
