"""What users, the autosizer and inputs that grow want of a job that runs: another generation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from anabranch.config import AutoscaleSettings, Settings
from anabranch.coordinator import assigning, autosizing, changing, draining, pausing, sizing, watching, whence
from anabranch.coordinator.autosizing import Findings, Look, Verdict
from anabranch.coordinator.changing import Generation, Wanted
from anabranch.coordinator.served import Served
from anabranch.coordinator.serving import Serving
from anabranch.coordinator.states import DeploymentState
from anabranch.errors import AnabranchError, ConflictError
from anabranch.messages import (
    Assigning,
    Assignment,
    Drain,
    Drained,
    DrainNotification,
    Expanding,
    JobStatus,
    Rewinding,
    Rewound,
    Scaled,
    Scaling,
    Sizing,
)
from anabranch.model.factor import FACTORS
from anabranch.model.job_model import Matched
from anabranch.planning import patterns
from anabranch.planning.transition import expand, rewind
from anabranch.systems.systems import Systems

__all__ = ["Wishes"]

_SIZE_EVERY = 1.0
_ADVISED_AFTER = 30.0
"""What would help is an event once it would have helped for so many seconds."""


class Wishes:
    """Thread-safe.

    Args:
        systems, counting, locating: see :class:`anabranch.coordinator.service.Coordinator`.
    """

    def __init__(
        self, served: Served, systems: Systems | None, counting: watching.Counting, locating: watching.Locating
    ) -> None:
        self._served = served
        self._systems = systems
        self._counting = counting
        self._locating = locating

    def scale(self, job: str, wish: Scaling) -> Scaled:
        """Give a running job another factor, or number of containers: some lanes are closed, others go on from them.

        It is changing until all of them run. Said twice with the same request, or when it is so already, nothing
        happens; but a change that is under way is hastened by one that is to be ``now``.

        Raises:
            NotFoundError: nobody knows the job.
            ConflictError: it doesn't run, or is being changed; or it can't be changed so while it runs.
            ConfigError: such a factor, or number of containers, can't be.
            AnabranchError: racks count, and a system doesn't answer.
        """
        self._locate(job)
        with self._served.lock:
            serving, present = self._served.at_present(job)
            known = self._served.is_known(job, wish.request)
            wanted = None if known else changing.scaled(serving, present, wish, alone=self._served.grace is None)
            if wanted is None and wish.now and not wish.dry:
                self._served.hasten(serving)
            return self._scaled(serving, present, wanted, wish)

    def rewind(self, job: str, wish: Rewinding) -> Rewound:
        """Let a running job read its source streams again from some place: lanes are closed, and those that go on from
        them begin there.

        It is changing until all of them run. Said twice with the same request, nothing more happens. A partition that
        wasn't read so far goes on where it is.

        Raises:
            NotFoundError: nobody knows the job, or it reads no such partition.
            ConflictError: it doesn't run, or is being changed.
            UsageError: no such place, or nothing is said of the state that the job keeps.
            AnabranchError: a system doesn't answer.
        """
        with self._served.lock:
            serving, present = self._served.at_present(job)
            if self._served.is_known(job, wish.request):
                return Rewound(generation=present.generation)
            changing.check_changeable(serving)
            sources = rewind.sources(present.graph, serving.lanes)
            systems = self._systems or Systems(Settings(**serving.settings), job)
        to = whence.offsets(wish.to, job, sources, systems)  # which may take long
        with self._served.lock:
            serving, present = self._served.at_present(job)
            if self._served.is_known(job, wish.request):
                return Rewound(generation=present.generation)
            wanted = changing.rewound(serving, present, wish, to)
            if not wish.dry:
                self._served.change(serving, wanted, wish.now)
            assert isinstance(wanted.told, Rewound)
            return wanted.told

    def expand(self, job: str, wish: Expanding) -> Scaled:
        """Let a running job go along with its inputs, whose partitions have become more. It is changing until all of
        its lanes run. Said twice with the same request, or when there are no more of them, nothing happens.

        Raises:
            NotFoundError: nobody knows the job.
            ConflictError: it doesn't run, or is being changed; or it can't go along: says which stream, and why.
            AnabranchError: a system doesn't answer.
        """
        with self._served.lock:
            self._served.look_again()
            serving = self._served.serving(job)
            inputs, settings = self._inputs(serving), serving.settings
        counts = self._counting(job, settings, *inputs)
        self._locate(job, counts)
        with self._served.lock:
            serving, present = self._served.at_present(job)
            serving.counts = expand.seen(present.graph, present.model, counts)
            known = self._served.is_known(job, wish.request)
            wanted = None if known else changing.expanded(serving, present, counts, "user", wish.request)
            return self._scaled(serving, present, wanted, wish)

    def assign(self, job: str, wish: Assigning) -> Scaled:
        """Let the tasks of a running job go where they should be by the racks as they are now: those of its containers,
        and of its inputs' replicas. It is changing until all of its lanes run. Said twice with the same request, or
        when all are there, nothing happens.

        Raises:
            NotFoundError: nobody knows the job.
            ConflictError: it doesn't run, or is being changed; or it can't be changed so while it runs.
            AnabranchError: a system doesn't answer.
        """
        self._locate(job)
        with self._served.lock:
            serving, present = self._served.at_present(job)
            if self._served.is_known(job, wish.request):
                return self._scaled(serving, present, None, wish)
            wanted = assigning.assigned(serving, present, wish.request)
            assert isinstance(wanted.told, Scaled)
            if wanted.model.containers == present.model.containers:
                return msgspec.structs.replace(wanted.told, generation=present.generation)
            # with nothing to move, it is known from now on what seats were placed for
            return self._scaled(serving, present, wanted, wish)

    def assignment(self, job: str) -> Assignment:
        """Where the tasks of a job are, where they should be, and why. Errors as :meth:`assign`."""
        self._locate(job)
        with self._served.lock:
            serving, present = self._served.at_present(job)
            return assigning.explained(serving, present)

    def drain(self, job: str, said: DrainNotification) -> Drained:
        """Let a job finish what it has taken in, with all windows and timers, and end. Draining twice is draining once.

        Raises:
            NotFoundError: nobody knows the job.
            ConflictError: it doesn't run, is being changed, or has a failed lane.
            UsageError: the notification makes no sense.
            AnabranchError: a system doesn't answer.
        """
        with self._served.lock:
            serving, _ = self._served.at_present(job)
            told = self._drained(serving, said)
            if told.ignored or serving.drain is not None or (said.dry and said.mode == "planned"):
                return told
            read = draining.sources(serving.lanes) if said.mode == "latest" else ()
            systems = self._systems or (Systems(Settings(**serving.settings), job) if read else None)
        ends = whence.ends(read, systems) if systems is not None else {}  # which may take long
        with self._served.lock:
            serving, _ = self._served.at_present(job)
            told = self._drained(serving, said)
            if told.ignored or serving.drain is not None or said.dry:
                return told
            what, why = f"drain, up to {said.mode}", f"{told.seconds:.1f} s is foretold"
            self._served.put_drain(serving, Drain(notification=said, ends=ends), "user", what, why)
            serving.drains_since, serving.drains_for = self._served.now(), told.seconds
            self._served.advance(serving)
            self._served.announce()
            return told

    def _drained(self, serving: Serving, said: DrainNotification) -> Drained:
        ignored = draining.check(serving.job, serving.state, serving.deployment, serving.lanes, said)
        present = said if serving.drain is None else serving.drain.notification
        stages = draining.stages(serving.lanes)
        return Drained(
            deployment=serving.deployment,
            uuid=present.uuid,
            mode=present.mode,
            ignored=ignored,
            stages=stages,
            seconds=pausing.drain(stages, serving.reports),
        )

    def cancel(self, job: str) -> None:
        """Let a job that is being changed go back to what it was before; one that drains runs again.

        Raises:
            NotFoundError: nobody knows the job.
            ConflictError: it isn't being changed, or goes back already; a new lane has failed after it had begun; or
                it is rewound, and records are being processed again; or it drains, and time has ended.
        """
        with self._served.lock:
            serving, present = self._served.at_present(job)
            if serving.drain is not None:
                draining.check_cancellable(job, serving.drain)
                self._served.put_drain(serving, None, "user", "the user cancelled the drain")
                self._served.advance(serving)
                return
            changing.check_cancellable(serving, present)
            self._served.undo(serving, present, "user", "the user cancelled it")

    def sizing(self, job: str) -> Sizing:
        """What decides on a job's factor and containers.

        Raises:
            NotFoundError: nobody knows the job.
            ConflictError: it isn't served here.
        """
        with self._served.lock:
            self._served.look_again()
            serving = self._served.serving(job)
            status = self._served.status(serving)
            limits = serving.autoscale or AutoscaleSettings(max=FACTORS[-1])
            look, findings = self._look(serving, limits, status)
            verdict = "" if serving.autoscale is None else self._verdict(serving, limits, status, look, findings).why
            scalable = changing.is_scalable(serving, self._served.present(serving))
            return sizing.of(status, scalable, verdict, look, limits.target_lag_seconds)

    def look(self) -> None:
        """Look at the inputs of the jobs that run and for which it is time, and let them go along; to be called about
        every second. It takes as long as systems take to answer."""
        with self._served.lock:
            self._served.look_again()
            now = self._served.clock()
            due = [
                (serving, self._inputs(serving))
                for serving in self._served.jobs.values()
                if serving.state is DeploymentState.RUNNING and now >= serving.look_from
            ]
        for serving, inputs in due:
            counts, why = serving.counts, ""
            try:
                counts = self._counting(serving.job, serving.settings, *inputs)
                self._locate(serving.job, counts)
            except AnabranchError as error:
                why = f"how many partitions its inputs have isn't known: {error.what}"
            with self._served.lock:
                self._served.look_again()
                if self._served.jobs.get(serving.job) is not serving:
                    continue
                serving.look_from = self._served.clock() + serving.looks_every
                present = self._served.present(serving)
                serving.counts = expand.seen(present.graph, present.model, counts)
                serving.warning = why or serving.warning
                if not why and serving.state is DeploymentState.RUNNING:
                    self.go_along(serving, counts)

    def go_along(self, serving: Serving, counts: Mapping[str, int], begins: bool = False) -> None:
        """Let a job have as many partitions as its inputs, or say once why it doesn't."""
        before, serving.warning = serving.warning, ""
        try:
            wanted = changing.expanded(serving, self._served.present(serving), counts, "coordinator", begins=begins)
        except ConflictError as error:
            serving.warning = str(error)
            if serving.warning != before:
                what = "the job doesn't go along with its inputs"
                self._served.store.note([self._served.event(serving.job, "coordinator", what, error.what)])
            return
        if wanted is not None:
            self._served.change(serving, wanted)

    def autosize(self, serving: Serving) -> None:
        """Give a job the factor that the autosizer finds. One that it can't have is wished for once a generation, and
        what would help where no factor does is said as often."""
        limits = serving.autoscale
        if limits is None or self._served.clock() < serving.sized_at + _SIZE_EVERY:
            return
        serving.sized_at = self._served.clock()
        status = self._served.status(serving)
        look, serving.findings = self._look(serving, limits, status)
        verdict = self._verdict(serving, limits, status, look, serving.findings)
        if verdict.factor is None or serving.generation == serving.refused:
            self._advise(serving, verdict)
            return
        wish, present = Scaling(factor=verdict.factor), self._served.present(serving)
        try:
            wanted = changing.scaled(serving, present, wish, self._served.grace is None, "autoscale", verdict.why)
        except AnabranchError as error:
            what = f"the factor stays {present.factor}, and should be {verdict.factor}"
            event = self._served.event(serving.job, "autoscale", what, f"{verdict.why}; {error}")
            self._served.write(self._served.store.note, [event])
            serving.refused = serving.generation
            return
        if wanted is not None:
            self._served.change(serving, wanted)

    def _advise(self, serving: Serving, verdict: Verdict) -> None:
        since, now = serving.findings.advising, self._served.clock()
        if since is None or now - since < _ADVISED_AFTER or serving.advised == serving.generation:
            return
        what = f"the factor stays {serving.model.factor}, which isn't enough"
        event = self._served.event(serving.job, "autoscale", what, "; ".join((verdict.why, *verdict.advice)))
        self._served.write(self._served.store.note, [event])
        serving.advised = serving.generation

    def _scaled(
        self, serving: Serving, present: Generation, wanted: Wanted | None, wish: Scaling | Expanding | Assigning
    ) -> Scaled:
        """Go into a generation, unless it is only asked for, and say what comes of it. None: all stays as it is."""
        if wanted is None:
            return Scaled(generation=present.generation, factor=present.factor, containers=present.containers)
        if not wish.dry:
            self._served.change(serving, wanted, wish.now)
        assert isinstance(wanted.told, Scaled)
        return wanted.told

    def _locate(self, job: str, counts: Iterable[str] = ()) -> None:
        """Find out which racks the inputs of a job are in, and the streams that were counted, if any of its seats is in
        one: outside of the lock, as it takes as long as systems take to answer."""
        with self._served.lock:
            self._served.look_again()
            serving = self._served.serving(job)
            streams = sorted({*counts, *(name for stage in serving.model.stages for name in stage.inputs)})
            if not any(serving.where(len(serving.model.containers)).seats.values()):
                return
        try:
            replicas = self._locating(job, serving.settings, streams)
        except AnabranchError:
            if serving.assignment.strategy != "none":
                raise
            replicas = {}  # they would only be shown
        with self._served.lock:
            serving.replicas = replicas

    def _look(self, serving: Serving, limits: AutoscaleSettings, status: JobStatus) -> tuple[Look, Findings]:
        """What the autosizer finds in the figures of a job, and what it knows then."""
        pause = pausing.expected((each.lane for each in status.lanes), serving.reports, serving.shown)
        threads, now = autosizing.threads_of(serving.settings), self._served.clock()
        return autosizing.looked(limits, status, threads, pause, serving.findings, now)

    def _verdict(
        self, serving: Serving, limits: AutoscaleSettings, status: JobStatus, look: Look, findings: Findings
    ) -> Verdict:
        """What the autosizer makes of a job."""
        since, undone = self._served.now() - serving.changed_at, serving.model.undoes > 0
        return autosizing.decide(limits, status, since, undone, look, findings, self._served.clock())

    def _inputs(self, serving: Serving) -> tuple[list[str], list[Matched]]:
        """The streams that a job reads and others write, and the patterns for those that may come."""
        present = self._served.present(serving)
        return list(expand.partitions(present.graph, present.model)), list(patterns.of_model(present.model).values())
