"""Lets a changed job take over its positions and state from the version that ``anabranch run`` ran before."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from anabranch.cli import deploy, former_lanes, progress
from anabranch.config import Settings
from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.store import Store, stored_jobs
from anabranch.errors import ConflictError
from anabranch.launch import fingerprint, next_version, outputs, own_program, preparation, stored_code
from anabranch.launch.loading import JobFile
from anabranch.launch.next_version import Resolve
from anabranch.launch.own_program import PackedCode
from anabranch.launch.preparation import Prepared
from anabranch.model.lane import open_lanes
from anabranch.planning import fingerprints
from anabranch.planning.plan import Plan
from anabranch.protocol.deployment import DeployRequest, DeployResult, StartRequest
from anabranch.protocol.status import JobStatus
from anabranch.systems.systems import Systems

__all__ = ["Takeover", "foretold"]


@dataclass(frozen=True)
class Takeover:
    """A job that is about to run in this process, and the same job as it was stored.

    Attributes:
        code: the job's code.
        drop_state: the operators whose state may be dropped if the job has changed.
    """

    store: Store
    coordinator: Coordinator
    file: JobFile
    settings: Settings
    code: PackedCode
    drop_state: tuple[str, ...]

    def is_due(self, plan: Plan, known: Collection[str] | None) -> bool:
        """Whether the stored job should continue as another version. False if the job starts anew. Also False if the
        stored job is too old to be compared; in this case, starting the job is refused later.

        Args:
            known: see :attr:`Prepared.known`.
        """
        job = self.file.graph.job
        stored = None if known is None else self.store.deployment(job)
        if stored is None or stored.any_program is None:
            return False
        own = fingerprint.of(self.file.graph, plan, self.settings, known)
        return not fingerprints.alike(stored.fingerprint, own)

    def deploy(self) -> Prepared:
        """Store the new version as the next deployment, and return it. The lanes of the former version are still open.

        Raises:
            ConflictError: the new version can't take over. The message says why, and what can be done.
            UsageError: an operator in ``drop_state`` has no state, or would also have state in the new version.
            AnabranchError: as for :func:`next_version.planned`.
        """
        job = self.file.graph.job
        prepared, _ = self.planned(partial(preparation.resolved, settings=self.settings))
        for warning in prepared.plan.warnings:
            progress.say(f"warning: {warning}")
        self._check_code(prepared)
        prepared = next_version.ready(prepared, self.settings)
        told = self.coordinator.deploy(job, self._request(prepared))
        progress.say(f"job {job} has changed: deployment {told.deployment} takes over its positions and state")
        for note in told.notes:
            progress.say(note)
        return prepared

    def planned(self, resolve: Resolve) -> tuple[Prepared, DeployResult]:
        """The new version, and what its deployment would change. Deploys nothing. For errors, see :meth:`deploy`."""
        job = self.file.graph.job
        formats = self.coordinator.known_formats(job)
        prepared = next_version.planned(self.coordinator, self.file, self.settings, formats, resolve)
        return prepared, self.coordinator.deploy(job, self._request(prepared, dry=True))

    def close_former(self, prepared: Prepared, deployed: bool, log: Path) -> None:
        """Close the lanes of former versions, and stop the job. If the new version wasn't ``deployed`` just now and
        there are no such lanes, do nothing. For errors, see :func:`former_lanes.close`.
        """
        job = self.file.graph.job
        if not deployed:
            if not former_lanes.still_open(self.coordinator, job):
                return
            self.coordinator.start(self.message(prepared, until_caught_up=False))
        former_lanes.close(self.coordinator, job, log)

    def message(
        self, prepared: Prepared, until_caught_up: bool, reset_state: bool = False, dry: bool = False
    ) -> StartRequest:
        """The request to start the job. Unless ``dry``, the job's code is stored, if possible."""
        put = (lambda *_: None) if dry else self.coordinator.put_artifact
        program = own_program.of(prepared, self.settings, self.code, put)
        return preparation.start_message(
            prepared, until_caught_up, None, reset_state, settings=self.settings, own_program=program
        )

    def _check_code(self, prepared: Prepared) -> None:
        """Raises ConflictError if code that must close lanes can't be loaded from the store. A deployment that differs
        from the new version only in the bodies of functions isn't checked, because the new version's code can close
        that deployment's lanes.
        """
        job = self.file.graph.job
        own = fingerprint.of(self.file.graph, prepared.plan, self.settings, prepared.known)
        for number in sorted({lane.deployment for lane in open_lanes(self.coordinator.known_lanes(job).values())}):
            its = stored_jobs.deployment(self.store, job, number)
            renewed = its.own_program is not None and fingerprints.alike(its.fingerprint, own)
            if its.any_program is not None and not renewed and (why := stored_code.fault(self.store, its.any_program)):
                raise ConflictError(
                    f"the stored code of deployment {number} of job {job!r}, which must close its lanes, can't be "
                    f"loaded: {why}",
                    "nothing was changed. If the code reads a file that is missing: only some files are packed with it "
                    "(in a git work tree, all but data; elsewhere, *.py and *.toml). Change that in the file as it "
                    f"was, and run it once; or drain the job and start the new version: anabranch drain {job}",
                )

    def _request(self, prepared: Prepared, dry: bool = False) -> DeployRequest:
        message = self.message(prepared, until_caught_up=False, dry=dry)
        return DeployRequest(start=message, drop_state=self.drop_state, request=uuid.uuid4().hex, dry=dry)


def foretold(file: JobFile, settings: Settings, drop_state: tuple[str, ...]) -> tuple[DeployResult, JobStatus]:
    """What the next ``anabranch run`` of a changed job would change, and the job's present status.

    Raises:
        NotFoundError: there is no such job.
        ConflictError: the next run wouldn't deploy another version, or the new version can't take over.
        AnabranchError: as for :meth:`Takeover.deploy`.
    """

    job = file.graph.job
    with closing(Store.open_existing(settings.coordinator.store)) as store:
        coordinator = Coordinator(store, systems=Systems(settings, job))
        status, lanes = coordinator.status(job), coordinator.known_lanes(job)
        plan = preparation.plan(file, settings, None if status.state.is_over else coordinator.model(job))
        takeover = Takeover(store, coordinator, file, settings, PackedCode(file.path.parent), drop_state)
        if not takeover.is_due(plan, outputs.checked(plan, settings, lanes, status.state.is_over)):
            raise ConflictError(
                f"the next anabranch run deploys no other version of job {job!r}",
                "the job was drained or reset; or only the bodies of functions have changed; or an older version of "
                "anabranch ran the job, and stored no code",
            )
        return takeover.planned(deploy.resolving(settings))[1], status
