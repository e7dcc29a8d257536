"""Closes the lanes of a job's former version for ``anabranch run``. Only the code that began a lane's batch can finish
the batch, but this process has the code of the new version. So the former version's code runs in a separate container
process, which ends when this process does.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from anabranch import config as configuration
from anabranch import own_files
from anabranch.cli import haste, progress
from anabranch.coordinator.api import listening
from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.launcher.processes import last_said
from anabranch.errors import AnabranchError, JobFailedError
from anabranch.model.deployment_state import DeploymentState
from anabranch.model.lane import Lane, LaneState, open_lanes
from anabranch.protocol.status import JobStatus

__all__ = ["close", "still_open"]

_TRIES = 3
_LOOK = 0.1
_ENDS_WITHIN = 60.0
_STOPS_WITHIN = 30.0


def still_open(coordinator: Coordinator, job: str) -> list[Lane]:
    """Those lanes of former deployments that aren't closed yet, the lanes of the earliest deployment first; [] for an
    unknown job."""
    lanes = coordinator.known_lanes(job).values()
    present = max((lane.deployment for lane in lanes), default=0)
    its = [lane for lane in open_lanes(lanes) if lane.deployment < present]
    return sorted(its, key=lambda lane: lane.deployment)


def close(coordinator: Coordinator, job: str, log: Path) -> None:
    """Close all lanes of former deployments of a job that ``coordinator`` serves, and stop the job.

    Args:
        log: the file for the output of the containers. Its former content is replaced.

    Raises:
        JobFailedError: a lane failed.
        AnabranchError: the container ended several times in a row before it had closed a lane.
        KeyboardInterrupt: after Ctrl-C; the job is stopped first.
    """
    began = time.monotonic()
    progress.say(
        f"job {job}: {len(still_open(coordinator, job))} lane(s) of former versions end, with their own code "
        f"(output goes to {log}) ..."
    )
    log.unlink(missing_ok=True)
    own_files.make_file(log)
    token = secrets.token_urlsafe()
    server = listening.serve(coordinator, token=token)
    try:
        with _stopped(coordinator, job):
            tries = 0
            while tries < _TRIES and (due := still_open(coordinator, job)):
                _run_once(coordinator, due, server.url, token, log)
                tries = 0 if len(still_open(coordinator, job)) < len(due) else tries + 1
            if tries == _TRIES:
                raise AnabranchError(
                    f"the former version of job {job} could not end its lanes: {last_said(log)}",
                    f"see {log}; then run the job again, or undo the change",
                )
    finally:
        server.close()
    progress.say(f"job {job}: they have ended, after {time.monotonic() - began:.1f} s")


@contextmanager
def _stopped(coordinator: Coordinator, job: str) -> Iterator[None]:
    """Stop the job after the block, and wait until it is stopped. If the block raises an exception, only ask the job to
    stop, and raise the exception again.
    """
    try:
        yield
    except BaseException:
        with suppress(AnabranchError):
            coordinator.stop(job)
        raise
    coordinator.stop(job)
    coordinator.wait_until(job, {DeploymentState.STOPPED}, _STOPS_WITHIN)


def _run_once(coordinator: Coordinator, due: list[Lane], url: str, token: str, log: Path) -> None:
    """Run a container until it ends, with the earliest deployment's code, in the seat of the first lane in ``due``."""
    job, seat = due[0].job, due[0].seat
    waits = haste.Waits()
    with _container(job, seat, url, token, log) as child:
        while child.poll() is None:
            status = coordinator.status(job)  # this also advances the job
            if (failed := _failed(status)) is not None:
                raise JobFailedError(
                    f"lane {failed.id} of deployment {failed.deployment} of job {job} can't end: {failed.error}",
                    f"see {log}, and remove the cause; if it is in a function, undo all other changes, mend the "
                    "function, and run the job: the mended function then ends the lane",
                )
            waits.tell(status)
            time.sleep(_LOOK)
        coordinator.status(job)


def _failed(status: JobStatus) -> Lane | None:
    """A failed lane of a former deployment; None if there is none."""
    former = (each.lane for each in status.lanes if each.lane.deployment < status.deployment)
    return next((lane for lane in former if lane.state is LaneState.FAILED), None)


@contextmanager
def _container(job: str, seat: str, url: str, token: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a container process during the block. When the block ends, the container process is told to end; if this
    process dies, the container process ends at once.
    """
    environment = {**configuration.environment_of_containers(), f"{configuration.PREFIX}COORDINATOR__TOKEN": token}
    environment.pop("EXECUTION_ENV_CONTAINER_ID", None)
    read, write = os.pipe()  # nobody writes; the end of the pipe shows that this process has ended
    command = [sys.executable, "-P", "-m", "anabranch", "container", job, "--coordinator", url, "--seat", seat]
    try:
        with log.open("ab") as output:
            child = subprocess.Popen(
                [*command, "--lifeline", str(read)],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                pass_fds=(read,),
            )
        try:
            yield child
        finally:
            child.terminate()
            try:
                child.wait(_ENDS_WITHIN)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
    finally:
        os.close(read)
        os.close(write)
