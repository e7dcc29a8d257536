"""A job drains by the command line: it takes all in, every window comes out, and the next run goes on there."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.acceptance.harness import JOB, Workspace, flights, record_batch
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


COUNTS = """
from anabranch import Job

job = Job("counts")
job.read("in", key="k string", schema="n int").agg(n="count(*)", total="sum(n)", name="counted").write("counts")
"""


@pytest.mark.long
def test_partitions_that_are_added_while_a_job_is_drained_are_read_with_the_state_of_their_keys(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    try:
        (workspace.folder / "counts.py").write_text(COUNTS)
        workspace.call("stream", "create", "in", "--partitions", "2")
        keys = [[f"key-{n % 37}".encode() for n in range(400)], [f"key-{n % 53}".encode() for n in range(600)]]
        values = [[json.dumps({"n": n}).encode() for n in range(len(each))] for each in keys]
        workspace.append("in", record_batch(keys[0], values[0]))
        process = workspace.start("run", "counts.py")
        process.until("it runs", lambda: "counts running: " in process.stderr)
        workspace.call("drain", "counts", "--up-to", "latest")
        assert process.wait() == 0, process.stderr
        workspace.call("stream", "expand", "in", "--partitions", "4")
        workspace.append("in", record_batch(keys[1], values[1]))
        workspace.call("run", "counts.py", "--available-now")
        newest: dict[bytes | None, int] = {}
        for key, row in workspace.contents("counts"):
            newest[key] = max(row["n"], newest.get(key, 0))
        assert newest == Counter([*keys[0], *keys[1]])
        assert "has 4 partitions instead of 2" in workspace.call("events", "counts").stdout
    finally:
        workspace.close()
