"""A process whose Java is broken is replaced, and the job goes on exactly."""

from __future__ import annotations

import json
import os
import re
import signal
from contextlib import ExitStack
from pathlib import Path

import pytest

from anabranch import crash_points
from tests.acceptance.harness import Workspace, flights
from tests.jobs.failing.jobs import BROKEN_MAP, GONE, Failing, on_java
from tests.soak.errors_shown import failing_workspace

pytestmark = pytest.mark.acceptance


def records(workspace: Workspace, stream: str) -> list[int]:
    return [value["n"] for _, value in workspace.contents(stream)]


@pytest.mark.long
def test_a_broken_java_process_and_one_that_is_gone_are_replaced(tmp_path: Path) -> None:
    """In the first process every task fails whatever is tried; in the second one Java is killed; the third is right."""
    failing = Failing(on_java(BROKEN_MAP, GONE, again=False), ())
    with ExitStack() as stack:
        workspace = failing_workspace(tmp_path, failing, stack)
        process = workspace.start("run", "failing.py", "--available-now")
        assert process.wait() == 0, process.stderr
        assert records(workspace, "out") == list(range(40))
        said = [line.partition(": ")[::2] for line in process.stderr.splitlines() if "new process" in line]
        (lane,) = json.loads(workspace.call("status", "failing", "--json").stdout)["lanes"]
        broken = f"lane {lane['lane']['id']} failed in 1 of 1 attempts: OptionalDataException"
        gone = "the Java process of Spark has ended"
        assert [(what, why) for what, why in said if what != "warning"] == [
            ("a new process follows", broken),
            ("this is new process 1 of 2", broken),
            ("a new process follows", gone),
            ("this is new process 2 of 2", gone),
        ]
        events = json.loads(workspace.call("events", "failing", "--json").stdout)
        tried = [each for each in events if "failed and is tried again" in each["what"]]
        assert [each["what"].partition("again, ")[2] for each in tried] == ["in a new process"]
        assert all("OptionalDataException" in each["why"] for each in tried)


@pytest.mark.long
def test_a_run_whose_java_process_is_told_to_end_too_ends_and_the_job_goes_on_exactly(workspace: Workspace) -> None:
    """SIGTERM reaches the whole process group, in which Java is, and ends Java before a lane ends its batch."""
    several = flights(seed=11, count=8000)
    workspace.put(several)
    hold = f"0-:{crash_points.PUBLISHED}:2"
    process = workspace.start("run", "delays.py", hold=hold, job__max_rows_per_batch=500)
    process.held()
    os.killpg(process.popen.pid, signal.SIGTERM)
    assert process.wait() == 0, process.stderr
    ours = re.sub(r"-{40}.*?-{40}\n", "", process.stderr, flags=re.DOTALL)  # the others are of PySpark's accumulators
    assert "Traceback" not in ours, process.stderr
    assert "stopping; a second signal" in process.stderr
    said = [line for line in process.stderr.splitlines() if "new process" in line][-1]
    gone = "the Java process of Spark has ended; the next start finishes its batches"
    assert said == f"no new process follows, as this one was told to end: {gone}"
    assert workspace.lane("0-").read < len(several)
    workspace.finish()
    workspace.check_outputs(several)
