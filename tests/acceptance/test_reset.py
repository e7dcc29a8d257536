"""A job that has run is reset, and runs again under the same name: as a new one, with nothing left out or mixed in."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.acceptance.harness import JOB, LATE, TABLE, Workspace, flights

pytestmark = pytest.mark.acceptance


def written(workspace: Workspace) -> Counter[tuple[str, bytes | None, str]]:
    return Counter(
        (stream, key, json.dumps(value, sort_keys=True))
        for stream in (LATE, TABLE)
        for key, value in workspace.contents(stream)
    )


@pytest.mark.long
def test_a_job_that_differs_is_refused_with_the_ways_on_and_runs_again_after_a_reset(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    try:
        workspace.put(flights(1, 2000))
        workspace.finish()
        once, file = written(workspace), workspace.folder / f"{JOB}.py"

        as_it_was = file.read_text()
        file.write_text(as_it_was.replace("dep_delay >= 15", "dep_delay >= 20"))
        refused = workspace.call("run", file.name, "--available-now", code=4).stderr
        assert "condition is " in refused
        assert "dep_delay >= 20" in refused
        assert f"anabranch reset {JOB}: positions, state and open windows are lost" in refused
        file.write_text(as_it_was)

        asked = workspace.call("reset", JOB, code=2)
        assert "its positions in flights" in asked.stdout
        assert "nothing was changed" in asked.stderr
        assert workspace.lanes.exists()
        workspace.call("reset", JOB, "--yes")
        assert not workspace.lanes.exists()
        assert written(workspace) == once
        assert json.loads(workspace.call("status", JOB, "--json").stdout)["state"] == "reset"

        workspace.finish()
        assert written(workspace) == once + once
        workspace.finish()
        assert written(workspace) == once + once, "the second life goes on as any job does"
    finally:
        workspace.close()
