"""A job on a system that anabranch doesn't ship, which settings alone name: it is killed, scaled and drained."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from anabranch import crash_points
from anabranch.config import Settings
from anabranch.systems.systems import Systems
from tests.acceptance.harness import INPUT, JOB, ROOT, Workspace, broken, flights
from tests.soak import drained
from tests.support.systems import lines

pytestmark = pytest.mark.acceptance

FLIGHTS = flights(seed=7, count=3000, keyless=0)
BROKEN = broken(10)


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workspace]:
    """Its streams are in a folder of JSON lines. All processes can import the module: it is on ``PYTHONPATH``."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=":")
    section = lines(tmp_path / "lines")
    made = Workspace(tmp_path)
    given = {f"systems__lines__{name}": value for name, value in section.items()}
    made.settings |= {"systems__default": "lines", **given}
    settings = Settings.model_validate({"systems": {"default": "lines", "lines": section}})
    made.system = Systems(settings).named("lines")
    yield made
    made.close()


@pytest.mark.long
def test_killed_in_a_batch_then_run_to_the_end(workspace: Workspace) -> None:
    """The first stage is killed once its outputs hold a batch that it hasn't committed, the second one, too, in the
    next process. Then everything is there once: late flights, windows, and what can't be read."""
    workspace.put(FLIGHTS[:1500])
    workspace.put_broken(BROKEN)
    workspace.put(FLIGHTS[1500:])
    for stage in ("0-", "1-"):
        hold = f"{stage}:{crash_points.PUBLISHED}:1+"
        process = workspace.start("run", "delays.py", "--available-now", hold=hold, job__max_rows_per_batch=500)
        lane = process.held()
        process.kill()
        left = workspace.lane(lane)
        assert left.planned == left.committed + 1
    workspace.finish()
    workspace.check_outputs(FLIGHTS)
    workspace.check_dead_letters(BROKEN)
    listed = workspace.call("stream", "list").stdout
    assert f"{INPUT}\t4\n" in listed
    assert f"{len(FLIGHTS) + len(BROKEN):,} records" in workspace.call("stream", "describe", INPUT).stdout


@pytest.mark.long
def test_scaled_then_drained(workspace: Workspace) -> None:
    workspace.put(FLIGHTS[:2000])
    process = workspace.start("run", "delays.py", job__max_rows_per_batch=500)
    process.until("a committed batch of each lane", lambda: min(workspace.committed(s) for s in ("0-", "1-")) >= 0)
    assert f"job {JOB}: factor 4, 1 container(s)" in workspace.call("scale", JOB, "--factor", "4").stderr
    workspace.put(FLIGHTS[2000:])
    asked = workspace.call("drain", JOB, "--up-to", "latest")
    assert f"job {JOB}: drained, deployment 1" in asked.stderr
    assert process.wait() == 0, process.stderr
    taken = drained.taken(workspace)
    assert len(taken) == len(FLIGHTS)
    drained.check(workspace, taken)
