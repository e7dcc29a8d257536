"""A coordinator that starts containers itself: one is killed, then the coordinator, and the job is stopped."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

from tests.acceptance.harness import INPUT, Workspace, flights
from tests.acceptance.processes import command, start_of
from tests.soak.served import JOB, LEASE, Served
from tests.support.calm import until_calm

COUNT = 1200


def served(workspace: Workspace, seed: int, warm: int) -> Served:
    """A coordinator with a launcher, of a job with so many warm containers."""
    workspace.settings |= {"coordinator__launcher": "local", "job__warm_containers": warm}
    made = Served(workspace, count=COUNT, seed=seed)
    workspace.settings["job__max_rows_per_batch"] = COUNT
    return made


def processes(workspace: Workspace) -> set[int]:
    """The containers that live, by the notes of the launcher."""
    notes = (workspace.folder / ".anabranch" / "containers" / JOB).glob("*.lock")
    pids = {int(note.read_text().split()[0]) for note in notes}
    return {pid for pid in pids if start_of(pid) is not None and f"container {JOB}" in command(pid)}


def clear_away(workspace: Workspace) -> None:
    """They outlive the coordinator that has started them."""
    for pid in processes(workspace):
        os.killpg(pid, signal.SIGKILL)


def kept_running(seed: int, workspace: Workspace) -> str:
    """A container that is killed is replaced by the warm one, and that by another; a coordinator that comes back starts
    no doubles."""
    try:
        _kept_running(seed, served(workspace, seed, warm=1))
    finally:
        clear_away(workspace)
    return "two started, one restarted"


def _kept_running(seed: int, served: Served) -> None:
    workspace = served.workspace
    client, more = workspace.client(served.url), flights(seed=seed + 1, count=COUNT)
    later = [{**each, "origin": f"L{n}", "at": each["at"].replace("-01T", "-02T")} for n, each in enumerate(more)]

    def until(what: str, condition: Callable[[], bool]) -> None:
        served.coordinator.until(what, condition)

    def holder() -> int | None:
        return next((each.pid for each in client.status(JOB).containers if each.gone is None and each.alive), None)

    def is_staffed() -> bool:
        return client.status(JOB).standing_by == 1 and holder() is not None

    served.start(for_good=True)
    until("it runs, and a container stands by", lambda: is_staffed() and client.status(JOB).state == "running")
    first = holder()
    assert first is not None
    (warm,) = processes(workspace) - {first}
    workspace.put(later)
    os.kill(first, signal.SIGKILL)
    until("the warm one has its seat", lambda: holder() == warm)
    until("another one that stands by", is_staffed)
    both = processes(workspace)
    assert len(both) == 2
    assert warm in both

    os.kill(served.coordinator.popen.pid, signal.SIGKILL)
    served.coordinator.wait()
    served.lead()
    until("they are heard again", is_staffed)
    end = time.monotonic() + LEASE + 0.5
    until("a lease", lambda: time.monotonic() > end)
    assert processes(workspace) == both

    until_calm(client, JOB, workspace.whole_ends(INPUT), until)
    workspace.call("stop", JOB, coordinator__url=served.url)
    until("no container lives", lambda: not processes(workspace))
    workspace.check_outputs([*served.flights, *later])
    assert client.status(JOB).state == "stopped"
    what = [event.what.split(",")[0] for event in client.events(JOB) if event.who == "launcher"]
    assert (what.count("started a container"), what.count("restarted a container")) == (2, 1)
    served.end()
