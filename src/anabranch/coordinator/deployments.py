"""What users want of the versions of a job: another one, or the one before."""

from __future__ import annotations

import msgspec

from anabranch.coordinator import changing, reading, replacing
from anabranch.coordinator.changing import Generation
from anabranch.coordinator.naming import check_name
from anabranch.coordinator.replacing import Present, Replacement
from anabranch.coordinator.served import Served
from anabranch.coordinator.states import DeploymentState
from anabranch.errors import ConflictError, UsageError
from anabranch.messages import Deployed, Deploying, RollingBack

__all__ = ["Deployments"]


class Deployments:
    """Thread-safe."""

    def __init__(self, served: Served) -> None:
        self._served = served

    def deploy(self, job: str, wish: Deploying) -> Deployed:
        """Let another version of a job follow the present one, on its state and positions. It is changing until all of
        its lanes run; one that is at rest is started. Said twice with the same request, nothing more happens.

        Raises:
            NotFoundError: nobody knows the job.
            ConflictError: it is being started, changed or stopped; or the version can't follow: says why.
            UsageError: it is of another job; or state is to go that doesn't.
        """
        if wish.start.graph.job != job:
            raise UsageError(
                f"the file is of job {wish.start.graph.job!r}, not {job!r}", "deploy a file with Job(NAME) of that name"
            )
        with self._served.lock:
            present = self._present(job)
            if self._served.is_known(job, wish.request):
                return self._again(present)
            self._check(present)
            wanted = replacing.deployed(present, wish.start, 0, wish.drop_state, wish.request)
            return self._done(present, wanted, wish)

    def rollback(self, job: str, wish: RollingBack) -> Deployed:
        """Let the version before the present one follow it, on the present state: else as :meth:`deploy`.

        Raises:
            As :meth:`deploy`; ConflictError if there was none.
        """
        with self._served.lock:
            present = self._present(job)
            if self._served.is_known(job, wish.request):
                return self._again(present)
            self._check(present)
            again = replacing.former_version(self._served.store, job, present.stored.id)
            start = replacing.again(self._served.store, job, again)
            wanted = replacing.deployed(present, start, again, wish.drop_state, wish.request)
            return self._done(present, wanted, wish)

    def _present(self, job: str) -> Present:
        self._served.look_again()
        store, serving = self._served.store, self._served.jobs.get(check_name("job", job))
        if serving is not None:
            self._served.advance(serving)
        stored = reading.deployment(store, job)
        generation = Generation(store.graph(job, stored.id), store.model(job, stored.id, stored.generation))
        if serving is None or not serving.state.active:
            lanes = [lane for lane in store.lanes(job).values() if lane.deployment == stored.id]
            return Present(stored, generation, tuple(lanes), None)
        return Present(stored, generation, tuple(serving.known.values()), serving)

    def _check(self, present: Present) -> None:
        """Raises ConflictError if nothing can follow now."""
        job = present.stored.job
        if present.stored.state == DeploymentState.DRAINED.value:
            raise ConflictError(
                f"job {job!r} was drained: nothing goes on", "start its next version: anabranch start JOB.py"
            )
        if present.serving is None:
            if present.stored.drain is not None and present.stored.drain.last:
                raise ConflictError(
                    f"job {job!r} was stopped while it drained, and some of its lanes have drained already: what they "
                    "kept has come out, and no version can go on with it",
                    f"let it finish: anabranch start {job}; then start the next version: anabranch start JOB.py",
                )
            return
        changing.check_changeable(present.serving)
        if present.serving.until_caught_up:
            raise ConflictError(
                f"job {present.serving.job!r} ends by itself when it has caught up",
                "wait for that, and deploy the new version then",
            )

    def _again(self, present: Present) -> Deployed:
        number = present.stored.id
        return Deployed(
            deployment=number, version_of=replacing.version_of(self._served.store, present.stored.job, number)
        )

    def _done(self, present: Present, wanted: Replacement, wish: Deploying | RollingBack) -> Deployed:
        serving = present.serving
        if wish.dry:
            return wanted.told
        if serving is not None:
            self._served.replace(serving, wanted, wish.now)
            return wanted.told
        store, former = self._served.store, present.stored
        event = self._served.event(former.job, wanted.who, f"planned {wanted.what}", wanted.why)
        planned, left = DeploymentState.PLANNED.value, former.state
        self._served.write(store.replace_deployment, wanted.start, planned, left, wanted.ending, event)
        stored = reading.deployment(store, former.job)
        self._served.serve(msgspec.structs.replace(stored, until_caught_up=False))
        return wanted.told
