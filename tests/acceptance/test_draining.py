"""A job drains by the command line: it takes all in, every window comes out, and the next run goes on there."""

from __future__ import annotations

import pytest

from tests.acceptance.harness import JOB, Workspace, flights
from tests.soak import drained

pytestmark = pytest.mark.acceptance

FLIGHTS = flights(seed=11, count=3000)


@pytest.mark.long
def test_drained_and_run_again(workspace: Workspace) -> None:
    first, second = FLIGHTS[:2000], FLIGHTS[2000:]
    workspace.put(first)
    process = workspace.start("run", "delays.py", job__max_rows_per_batch=500)
    process.until("a committed batch of each lane", lambda: min(workspace.committed(s) for s in ("0-", "1-")) >= 0)
    planned = workspace.call("plan", "drain", JOB)
    assert "the next start is deployment 2" in planned.stdout
    asked = workspace.call("drain", JOB, "--up-to", "latest")
    assert f"job {JOB}: drained, deployment 1" in asked.stderr
    assert process.wait() == 0, process.stderr
    assert workspace.status()["state"] == "drained"
    assert "is drained" in workspace.call("drain", JOB, code=4).stderr
    taken = drained.taken(workspace)
    assert len(taken) == len(first)
    drained.check(workspace, taken)

    workspace.put(second)
    process = workspace.start("run", "delays.py")
    process.until("it runs", lambda: f"{JOB} running: " in process.stderr)
    assert workspace.status()["deployment"] == 2
    workspace.call("drain", JOB, "--up-to", "latest")
    assert process.wait() == 0, process.stderr
    whole = drained.taken(workspace)
    assert len(whole) == len(FLIGHTS)
    drained.check(workspace, taken, [flight for flight in whole if flight not in taken])
