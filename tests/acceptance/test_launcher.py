"""A coordinator that starts containers itself: nobody else does, one is killed, and the job is stopped."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from anabranch.coordinator.client import Client
from anabranch.messages import JobStatus
from tests.acceptance.harness import Workspace, command, flights, start_of
from tests.failover import JOB, Served

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(300)]


@pytest.fixture
def served(workspace: Workspace) -> Served:
    workspace.settings |= {"coordinator__launcher": "local", "job__warm_containers": 1}
    made = Served(workspace, count=4800, seed=7)
    workspace.settings["job__max_rows_per_batch"] = 2400
    return made


def processes(workspace: Workspace) -> dict[int, Path]:
    """The containers that live, with their logs, by the notes of the launcher."""
    notes = {
        int(lock.read_text().split()[0]): lock for lock in workspace.folder.glob(f".anabranch/containers/{JOB}/*.lock")
    }
    return {pid: lock.with_suffix(".log") for pid, lock in notes.items() if "container" in command(pid)}


def test_the_coordinator_keeps_a_job_and_a_warm_container_running(served: Served) -> None:
    workspace, coordinator = served.workspace, served.coordinator
    client, more = Client(served.url), flights(seed=8, count=4800)
    later = [{**each, "origin": f"L{n}", "at": each["at"].replace("-01T", "-02T")} for n, each in enumerate(more)]

    def status() -> JobStatus:
        return client.status(JOB)

    def holder() -> int | None:
        return next((each.pid for each in status().containers if each.gone is None and each.alive), None)

    def is_staffed() -> bool:
        return holder() is not None and status().standing_by == 1

    try:
        workspace.call("start", f"{JOB}.py", "--detach", "--coordinator", served.url)
        coordinator.until("it runs, and a container stands by", lambda: is_staffed() and status().state == "running")
        first = holder()
        assert first in processes(workspace)
        assert len(processes(workspace)) == 2
        (warm,) = processes(workspace).keys() - {first}
        workspace.put(later)
        os.kill(first, signal.SIGKILL)
        coordinator.until("the warm one has its seat", lambda: holder() == warm)
        coordinator.until("another one that stands by", is_staffed)
        (third,) = processes(workspace).keys() - {warm}
        assert third != first
        total = sum(workspace.ends()["flights"].values())
        coordinator.until("all is read", lambda: workspace.lane("0-").read == workspace.lane("1-").read == total)
        started = {pid: start_of(pid) for pid in (warm, third)}
        workspace.call("stop", JOB, coordinator__url=served.url)
        coordinator.until("no container lives", lambda: not any(start_of(pid) == at for pid, at in started.items()))
        workspace.check_outputs([*served.flights, *later])
        assert status().state == "stopped"
        what = [event.what.split(",")[0] for event in client.events(JOB) if event.who == "launcher"]
        assert what.count("started a container") == 2
        assert what.count("restarted a container") == 1
    finally:
        for pid in processes(workspace):
            os.killpg(pid, signal.SIGKILL)
    served.end()
