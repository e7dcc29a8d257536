"""An input is deleted and made again, or has lost its end: a stopped job keeps its state, and continues with it."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path

import pytest

from tests.acceptance.harness import INPUT, JOB, Workspace, flights

pytestmark = [pytest.mark.acceptance, pytest.mark.long]

COUNT = 3000


def test_a_job_that_was_scaled_continues_with_an_input_that_was_made_again(tmp_path: Path) -> None:
    """After a scale, lanes begin at offsets that the new stream hasn't reached: these must not be passed over."""
    workspace = Workspace(tmp_path, job__max_rows_per_batch=300)
    try:
        several = flights(3, COUNT, days=4, keyless=0)
        workspace.put(several[:1200])
        process = workspace.start("run", f"{JOB}.py")
        process.until("all to be read", lambda: workspace.read("0-") >= 1200)
        workspace.call("scale", JOB, "--factor", "2")
        process.until("the factor", lambda: '"factor": 2' in json.dumps(workspace.status()))
        workspace.put(several[1200:1800])
        process.until("all to be read", lambda: min(workspace.read("0-"), workspace.read("1-")) >= 1800)
        process.popen.send_signal(signal.SIGTERM)
        assert process.wait() == 0, process.stderr

        there = workspace.call("accept", JOB, INPUT, code=2).stderr
        assert "there is nothing to accept" in there
        shutil.rmtree(tmp_path / ".anabranch" / "streams" / INPUT)
        workspace.put(several[1800:2400])
        refused = workspace.start("run", f"{JOB}.py", "--available-now")
        assert refused.wait() != 0
        assert f"anabranch accept {JOB} {INPUT}" in refused.stderr, refused.stderr

        asked = workspace.call("accept", JOB, INPUT, code=2)
        assert "was deleted and created again" in asked.stdout
        assert "nothing was changed" in asked.stderr
        told = json.loads(workspace.call("accept", JOB, INPUT, "--yes", "--json").stdout)
        assert {offset for lane in told["lanes"] for offset in lane["to"].values()} == {0}
        workspace.put(several[2400:])
        workspace.finish()
        workspace.check_outputs(several)
        assert "it reads flights" in workspace.call("accept", JOB, "nothing", code=2).stderr
    finally:
        workspace.close()
