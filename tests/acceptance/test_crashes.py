"""A job killed at any of its steps goes on as if nothing had been."""

from __future__ import annotations

import pytest

from anabranch import steps
from tests.acceptance.harness import Workspace, flights

pytestmark = pytest.mark.acceptance

FLIGHTS = flights(seed=3, count=9000)
SMALL, LARGER = 1500, 3000
BATCH = 1


@pytest.mark.parametrize(
    ("stage", "step"),
    [(0, steps.PLANNING), (1, steps.PLANNED), (0, steps.PUBLISHED), (1, steps.COMMITTED)],
)
def test_killed_at_a_step(workspace: Workspace, stage: int, step: str) -> None:
    workspace.put(FLIGHTS)
    hold = f"{stage}-:{step}:{BATCH}"
    process = workspace.start("run", "delays.py", "--available-now", hold=hold, job__max_rows_per_batch=SMALL)
    lane = process.held()
    process.kill()
    left = workspace.lane(lane)
    assert left.committed >= (BATCH if step == steps.COMMITTED else BATCH - 1)
    assert left.planned >= (BATCH - 1 if step == steps.PLANNING else BATCH)
    assert left.read <= 0.8 * len(FLIGHTS)

    workspace.finish(job__max_rows_per_batch=LARGER)
    workspace.check_outputs(FLIGHTS)
    assert workspace.lane(lane).committed >= 3

    if step == steps.PUBLISHED:
        check_that_another_run_does_nothing(workspace)


def check_that_another_run_does_nothing(workspace: Workspace) -> None:
    ends = workspace.ends()
    again = workspace.finish()
    assert again.stderr.count(" 0 rows read in this run") == 2
    assert workspace.ends() == ends
