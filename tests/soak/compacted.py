"""A job whose state has parted is stopped and compacted, killed in the middle of that, and goes on: real processes."""

from __future__ import annotations

import json
import random
import signal
import socket
from typing import Any

from tests.acceptance.harness import Process, Workspace, record_batch
from tests.jobs import JOBS

JOB = JOBS / "counting.py"
KEYS = 200
_MANY = 4000


class _Served:
    """The job on a coordinator."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        url = f"http://127.0.0.1:{port}"
        workspace.settings |= {"coordinator__url": url}
        self.coordinator = workspace.start("coordinator", "--port", str(port))
        self.coordinator.until("its URL", lambda: url in self.coordinator.stderr)
        self.put = 0

    def feed(self, records: int) -> None:
        numbers = range(self.put, self.put + records)
        values = [json.dumps({"number": number}).encode() for number in numbers]
        keys = [f"k{number % KEYS}".encode() for number in numbers]
        self.workspace.append("asked", record_batch(keys, values))
        self.put += records

    def told(self, *words: str) -> Any:
        return json.loads(self.workspace.call(*words, "counting", "--json").stdout)

    def containers(self, count: int) -> list[Process]:
        return [self.workspace.start("container", "counting") for _ in range(count)]

    def until_read(self) -> None:
        """Wait until the job runs, and has read all there is."""

        def read() -> bool:
            status = self.told("status")
            lags = [lane["lag"] for lane in self.told("sizing")["lanes"]] if status["state"] == "running" else [1]
            ends = [lane["report"]["progress"]["ends"] for lane in status["lanes"] if lane.get("report")]
            known: dict[str, int] = {ssp: end for each in ends for ssp, end in each.items()}
            return not any(lags) and sum(known.values()) == self.put

        self.coordinator.until("all is read", read)

    def stop(self, containers: list[Process]) -> None:
        self.workspace.call("stop", "counting")
        for each in containers:
            assert each.wait() == 0, each.stderr
        self.coordinator.until("it is stopped", lambda: self.told("status")["state"] == "stopped")

    def foreign(self) -> int:
        return sum(lane["foreignRows"] for lane in self.told("inspect", "state")["lanes"])


def compacted(seed: int, workspace: Workspace) -> str:
    """1 container, then 2; a compaction that is killed with one folder or both written anew; another one; then 1."""
    dice = random.Random(seed)
    counting = Workspace(workspace.folder, job=JOB)
    counting.system.create("asked", 3)
    try:
        served = _Served(counting)
        served.feed(_MANY)
        counting.call("start", "counting.py", "--detach")
        containers = served.containers(2)
        served.until_read()
        counting.call("scale", "counting", "--factor", "4", "--containers", "2")
        served.feed(_MANY)
        served.until_read()
        running = counting.call("compact", "counting", code=4)
        assert "is already running here" in running.stderr or "is running" in running.stderr, running.stderr
        served.stop(containers)
        before = served.told("inspect", "state")["lanes"]
        foreign = sum(lane["foreignRows"] for lane in before)
        assert foreign > 0, before

        held = dice.choice(before)
        process = counting.start("compact", "counting", hold=f"{held['lane']}:rewritten:{held['batch']}")
        process.held()
        process.kill()
        assert served.told("inspect", "state")["lanes"] == before
        done = json.loads(counting.call("compact", "counting", "--json").stdout)["lanes"]
        assert sum(lane["rows"] - lane["rowsNow"] for lane in done) == foreign
        assert served.foreign() == 0

        counting.call("start", "counting", "--detach")
        containers = served.containers(2)
        served.feed(_MANY)
        served.until_read()
        counting.call("scale", "counting", "--containers", "1")
        served.feed(_MANY)
        served.until_read()
        served.stop(containers)
        served.coordinator.popen.send_signal(signal.SIGTERM)
        assert served.coordinator.wait() == 0
        _check(counting, served.put)
    finally:
        counting.close()
    return f"killed at lane {before.index(held) + 1} of {len(before)}; {foreign} rows were foreign"


def _check(counting: Workspace, put: int) -> None:
    """The last count of each key, in whatever partition it was read, is how often it was put."""
    last: dict[bytes | None, int] = {}
    for key, value in counting.contents("counts"):
        last[key] = max(last.get(key, 0), value["n"])
    assert set(last.values()) == {put // KEYS}, last
    assert len(last) == KEYS
