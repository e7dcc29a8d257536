"""``anabranch check``: finds damage in a job's lane folders, streams and outputs, shows what only a backup can recover,
and, with ``--repair``, repairs what can be repaired without loss.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anabranch import config as configuration
from anabranch.cli import connect, options, output, progress
from anabranch.config import Settings
from anabranch.coordinator.maintenance import stopped_job
from anabranch.coordinator.store import Store, stored_jobs
from anabranch.model.lane import Lane, LaneState
from anabranch.protocol.status import JobStatus

if TYPE_CHECKING:
    from anabranch.container.checkpoint.folder import Folder
    from anabranch.container.checkpoint.review import Finding, LaneFiles
    from anabranch.systems.systems import Systems


def check(
    job: options.Job,
    repair: Annotated[bool, typer.Option("--repair", help="Repair what can be repaired without loss.")] = False,
    config: options.Config = None,
    json: options.Json = False,
) -> None:
    """Check the folders, streams and outputs of a job for damage. Exits with 1 if something is wrong."""
    settings = configuration.load(config)
    with ExitStack() as stack:
        store = stack.enter_context(stopped_job.alone(settings.coordinator, job, progress.say)) if repair else None
        if store is not None:
            status, its = stored_jobs.status(store, job), connect.stored_settings(settings, store, job)
        else:
            status, its = connect.status(settings.coordinator, job), connect.settings_of(settings, job)
        looked = _Check(its, status, stack)
        findings = looked.findings() if store is None else looked.repaired(store)
    left = [each for each in findings if not (repair and each.mends)]
    if json:
        output.as_json({"job": job, "served": status.served, "findings": [asdict(each) for each in findings]})
    for each in findings if not json else ():
        typer.echo(_line(each, repair))
    running = len(looked.running)
    note = f"; {running} of its lanes are running, and weren't checked" if running else ""
    progress.say(f"job {job}: {f'{len(left)} faults' if left else 'nothing is wrong'}{note}")
    if left:
        raise typer.Exit(1)


class _Check:
    """Checks a job's streams and outputs, and the folders of lanes that neither run nor are closed. Repairs folders.

    ``running`` are the lanes that run. If a coordinator serves the job, the coordinator knows which lanes run. Without
    a coordinator, containers can still be running lanes. Therefore, a lane whose folder is in use counts as running.
    """

    def __init__(self, settings: Settings, status: JobStatus, stack: ExitStack) -> None:
        from anabranch.systems.systems import Systems

        self._settings = settings
        self._stack = stack
        self._systems: Systems = Systems(settings, status.job)
        lanes = [one.lane for one in status.lanes if one.lane.state is not LaneState.CLOSED]
        self._served = status.served
        self.running = [lane for lane in lanes if status.served and lane.state is not LaneState.FAILED]
        self._streams = {(ssp.system, ssp.stream) for lane in lanes for ssp in (*lane.ssps, *lane.broadcast)}
        self._streams |= {
            (lane.system(output), output)
            for lane in lanes
            for output in lane.outputs
            if not self._systems.is_table(output)
        }
        self._lanes = [lane for lane in lanes if lane.folder_epoch and lane not in self.running]

    def findings(self) -> list[Finding]:
        """All problems that were found. Changes nothing."""
        from anabranch.container.checkpoint import review

        findings = [*review.of_streams(self._systems, self._streams)]
        for lane in self._lanes:
            if not self._served and review.in_use(self._settings.storage.root, lane):
                self.running.append(lane)
            else:
                findings += self._looked(lane)
        return findings

    def repaired(self, store: Store) -> list[Finding]:
        """Repair what can be repaired. Returns all problems, repaired or not. ``store`` is the store from
        :func:`stopped_job.alone`, which prevents other processes from serving the job meanwhile.

        Raises:
            ConflictError: a process is using one of the folders.
        """
        from anabranch.container.checkpoint import review

        findings = [*review.of_streams(self._systems, self._streams)]
        for lane in self._lanes:
            its = self._looked(lane)
            findings += self._repaired(store, lane) if any(each.mends for each in its) else its
        return findings

    def _repaired(self, store: Store, lane: Lane) -> list[Finding]:
        """Fence a lane, check it again, and repair it. The second check is needed because a writer that has outlived
        its driver could have published another batch in the meantime. Returns the lane's problems, repaired or not.
        """
        from anabranch.container.checkpoint import damage, review

        folder = self._folder(lane)
        folder.lock()
        why, what = "the user repairs the job's files", "a repair begins for"
        (fenced,) = stopped_job.begun(store, [lane], time.time(), "check", why, what)
        its, resumed = review.of_lane(self._files(fenced), self._systems, lambda _: self._published(fenced, folder))
        damage.repair(folder, fenced, resumed)
        return its

    def _published(self, lane: Lane, folder: Folder) -> int:
        """Fence a lane's outputs, so no former process of the lane can publish anything. Returns the last batch of
        which at least a part is in an exactly-once output or a table; -1 if there is no such batch."""
        new = False if lane.took_outputs(folder.committed()) else None
        self._systems.recover(lane, lane.epoch, new=new)
        self._systems.fence_tables(lane, lane.epoch, new=new, foreign=True)
        return self._systems.published(lane)

    def _looked(self, lane: Lane) -> list[Finding]:
        from anabranch.container.checkpoint import review

        found = review.settled(lambda: self._files(lane), self._systems, self._systems.published)
        if found is None:
            self.running.append(lane)
        return found or []

    def _files(self, lane: Lane) -> LaneFiles:
        from anabranch.container.checkpoint import review

        return review.local_files(self._settings.storage.root, lane) or self._far_files(lane)

    def _far_files(self, lane: Lane) -> LaneFiles:
        from anabranch.container.checkpoint import damage
        from anabranch.container.checkpoint.review import LaneFiles

        folder = self._folder(lane)
        return LaneFiles(lane, folder.uri, damage.checkpoint(folder, lane) if folder.exists() else None)

    def _folder(self, lane: Lane) -> Folder:
        from anabranch.container.checkpoint.folder import Folder

        root = self._settings.storage.root
        return Folder(self._spark, f"{root}/{lane.job}/{lane.id}/{lane.folder_epoch}", self._systems.streams_by_topic)

    @property
    def _spark(self) -> Any:
        from anabranch.container.checkpoint import claims
        from anabranch.spark.session import session

        if not hasattr(self, "_session"):
            progress.say("checking the folders with Spark ...")
            self._session = session.for_schemas(self._settings, "")
            self._stack.callback(claims.stop_session, self._session)
        return self._session


def _line(found: Finding, repair: bool) -> str:
    lines = [f"{found.part}: {f'{found.path} ' if found.path else ''}{found.problem}"]
    if found.lost:
        lines.append(f"  without a backup, this is lost: {found.lost}")
    if found.mends:
        lines.append(f"  {'repaired' if repair else '--repair, or the next start,'}: {found.mends}")
    return "\n".join(lines)
