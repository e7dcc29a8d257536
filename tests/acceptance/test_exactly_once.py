"""Whatever is killed, a consumer of committed records gets each once and in order. Soak has more, and what fails it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from anabranch import crash_points
from anabranch.testing.broker import Cluster
from tests.acceptance.harness import NARROW, Workspace
from tests.jobs import numbered

pytestmark = pytest.mark.acceptance

COUNT = 4000
SMALL, LARGER = 1000, 3000


@pytest.fixture
def workspace(tmp_path: Path, cluster: Cluster) -> Iterator[Workspace]:
    made = numbered.workspace_of(tmp_path, cluster)
    numbered.put(made, COUNT)
    yield made
    made.close()


def killed(workspace: Workspace, stage: int, step: str, batch: int) -> str:
    """Run the job with small batches to a step, and kill it there; gives the lane."""
    hold = f"{stage}-:{step}:{batch}"
    words = "run", "exactly.py", "--available-now"
    process = workspace.start(*words, hold=hold, job__max_rows_per_batch=SMALL)
    lane = process.held()
    numbered.check_held(workspace, lane, step, batch)
    process.kill()
    return lane


@pytest.mark.long
def test_each_record_once_whatever_is_killed(workspace: Workspace, tmp_path: Path) -> None:
    """A kill with a marker in a transaction that is open, one while slots are opened; then a task that fails once. Soak
    does each at each stage, kills between the commits of two slots, and sees that another run does nothing."""
    lane = killed(workspace, 0, crash_points.MARKED, 1)
    killed(workspace, 1, crash_points.OPENING, workspace.lane("1-").committed + 1)
    assert workspace.lane(lane).read < 1.6 * COUNT

    failing = tmp_path / "fail-once"
    failing.touch()
    workspace.finish(job__max_rows_per_batch=LARGER, spark__conf=NARROW, env={"EXACTLY_FAIL_ONCE": str(failing)})
    assert not failing.exists()
    numbered.check(workspace, COUNT)

    changed = workspace.call("run", "exactly.py", streams__exact__delivery="at-least-once", code=4)
    assert "delivery of exact is at-least-once, and was not set" in changed.stderr
