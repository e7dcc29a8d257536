"""A job that a coordinator serves to containers, as processes that are frozen, killed and cut off."""

from __future__ import annotations

import json
import re
import signal
import socket
from collections.abc import Sequence
from typing import Any

from tests.acceptance.harness import Flight, Process, Workspace, flights

JOB = "delays"
LEASE, GRACE = 5.0, 1.0
SETTINGS = {
    "coordinator__lease": f"{LEASE:.0f} seconds",
    "coordinator__grace": f"{GRACE:.0f} seconds",
    "coordinator__period": "1 second",
}
FENCED = 4
PORTION, EVERY = 500, 5.0
"""So many records are put every so many seconds, while a coordinator is away for long."""


class Served:
    """A workspace whose job is served by a coordinator, at a port that it keeps when it is started again.

    Args:
        store: the URL of its database; default: SQLite in the workspace.
        later: so many more flights are kept, to be put later.
    """

    def __init__(self, workspace: Workspace, count: int, seed: int, store: str | None = None, later: int = 0) -> None:
        self.workspace = workspace
        workspace.settings |= {**SETTINGS, "job__max_rows_per_batch": count // 12}
        if store is not None:
            workspace.settings["coordinator__store"] = store
        several = flights(seed=seed, count=count + later)
        self.flights: list[Flight] = several[:count]
        self.later = several[count:]
        workspace.put(self.flights)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.coordinator = self.lead()

    def lead(self) -> Process:
        """Start the coordinator."""
        self.coordinator = self.workspace.start("coordinator", "--port", str(self.port))
        self.coordinator.until("its URL", lambda: self.url in self.coordinator.stderr)
        return self.coordinator

    def start(self, for_good: bool = False, **settings: object) -> None:
        """Start the job, to be ended when it has caught up; or to run on."""
        words = [] if for_good else ["--available-now"]
        self.workspace.call("start", f"{JOB}.py", *words, "--detach", "--coordinator", self.url, **settings)

    def under_way(self, batch: int = 0, **settings: object) -> Process:
        """Start the job, and a container that has committed a batch."""
        self.start(**settings)
        process = self.container()
        self.until_under_way(process, batch)
        return process

    def standing_by(self) -> Process:
        """A container that waits for a seat, while records are left."""
        process = self.container()
        process.until("it stands by", lambda: "standing by" in process.stderr)
        self.check_under_way()
        return process

    def container(self, hold: str = "", url: str | None = None, under: Sequence[str] = ()) -> Process:
        return self.workspace.start("container", JOB, "--coordinator", url or self.url, hold=hold, under=under)

    def status(self) -> Any:
        return json.loads(self.workspace.call("status", JOB, "--json", coordinator__url=self.url).stdout)

    def until_under_way(self, process: Process, batch: int = 0) -> None:
        """Wait until stage 0 has committed a batch; some must be left."""
        process.until(f"batch {batch}", lambda: self.workspace.committed("0-") >= batch)
        self.check_under_way()

    def check_under_way(self) -> None:
        read = self.workspace.read("0-")
        assert read <= 0.8 * len(self.flights), f"only {len(self.flights) - read} records were left"

    def check(self) -> None:
        """All records are there once and in order, and the job has ended well."""
        self.workspace.check_outputs(self.flights)
        assert self.status()["state"] == "stopped"

    def end(self) -> None:
        """End the coordinator as an operator does."""
        self.coordinator.popen.send_signal(signal.SIGTERM)
        assert self.coordinator.wait() == 0, self.coordinator.stderr


def seat_of(process: Process) -> str | None:
    """The id of the container, once the process has a seat."""
    found = re.search(r"^container (\S+): seat", process.stderr, re.MULTILINE)
    return None if found is None else found[1]


def ended_well(process: Process) -> None:
    assert process.wait() == 0, process.stderr
    assert "Traceback" not in _without_runners(process.stderr), process.stderr


def _without_runners(text: str) -> str:
    """Without what Spark's own processes may say when its session ends, or ends a task, under them."""
    blocks = re.split(r"(?m)^(?=Traceback )", text)
    said = re.compile(r"python_streaming_source_runner|EOFError|outfile\.flush\(\)\nBrokenPipeError")
    return "".join(re.sub(r"^Traceback ", "", each) if said.search(each) else each for each in blocks)
