"""Changes and stops of a job whose batches are long: seconds to where it goes on exactly, whatever happens in them."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest

from anabranch import crash_points
from tests.acceptance.harness import Workspace
from tests.soak import broken_off
from tests.soak.broken_off import SOON, slowly

pytestmark = pytest.mark.acceptance


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    made = broken_off.workspace_of(tmp_path, None)
    yield made
    made.close()


@pytest.mark.long
def test_no_verb_and_no_signal_waits_for_a_long_batch(workspace: Workspace) -> None:
    with slowly(workspace) as job:
        process = job.run()
        time.sleep(3)
        begun = time.monotonic()
        workspace.call("scale", "slowly", "--factor", "4")
        assert time.monotonic() < begun + SOON
        process.popen.send_signal(signal.SIGINT)
        assert process.wait() == 130
        assert time.monotonic() < begun + 2 * SOON
        process = job.run()
        begun = time.monotonic()
        workspace.call("stop", "slowly")
        assert process.wait() == 0
        assert time.monotonic() < begun + SOON
        assert not list(workspace.contents("done"))


@pytest.mark.long
@pytest.mark.parametrize(
    "step",
    [crash_points.OF_BREAKS[1], *(pytest.param(step, marks=pytest.mark.long) for step in crash_points.OF_BREAKS[::2])],
)
def test_killed_at_a_step_of_taking_a_batch_back(workspace: Workspace, step: str) -> None:
    with slowly(workspace) as job:
        broken_off.killed_at(job, step)
        (closing, *_) = [each["lane"] for each in workspace.status()["lanes"] if each["lane"]["state"] == "closing"]
        taken_back = step == crash_points.TAKEN_BACK
        assert workspace.lane(closing["id"]).planned == (-1 if taken_back else 0), json.dumps(closing)
