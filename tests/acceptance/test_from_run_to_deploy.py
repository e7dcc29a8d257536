"""A job that ran in one process goes on under a coordinator, where another version of it takes its state over."""

from __future__ import annotations

import signal
import socket

import pytest

from tests.acceptance.harness import JOB, Workspace, flights
from tests.soak.served import SETTINGS, ended_well

pytestmark = [pytest.mark.acceptance, pytest.mark.long]


def test_positions_and_state_stay(workspace: Workspace) -> None:
    several = flights(12, 6000)
    workspace.put(several[:3000])
    workspace.finish()
    file = workspace.folder / "delays.py"
    before = file.read_text()
    after = before.replace("dep_delay >= 15", "dep_delay > 14")  # another condition that says the same
    assert after != before
    file.write_text(after)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    workspace.settings |= {**SETTINGS, "coordinator__url": f"http://127.0.0.1:{port}"}
    coordinator = workspace.start("coordinator", "--port", str(port))
    coordinator.until("its URL", lambda: str(port) in coordinator.stderr)
    workspace.put(several[3000:])
    workspace.call("deploy", file.name, "--detach")
    assert workspace.start("container", JOB).wait() == 4, "it has the code with which the lanes were closed"
    new = workspace.start("container", JOB)
    new.until("the new version", lambda: workspace.status()["state"] == "running")
    new.popen.send_signal(signal.SIGINT)  # PySpark would cancel the batches
    assert new.wait() == 130, new.stderr
    assert "failed" not in new.stderr
    assert "stopping; a second signal" in new.stderr
    assert not any(container["alive"] for container in workspace.status()["containers"]), "it kept its seat"
    new = workspace.start("container", JOB)
    new.until("all is read", lambda: min(workspace.read("0-"), workspace.read("1-")) >= len(several))
    workspace.call("stop", JOB)
    ended_well(new)
    workspace.call(
        "start", file.name, "--available-now", "--detach"
    )  # windows that the last batches have ended come out
    assert workspace.start("container", JOB).wait() == 0
    workspace.check_outputs(several)
    coordinator.popen.send_signal(signal.SIGTERM)
    assert coordinator.wait() == 0, coordinator.stderr
