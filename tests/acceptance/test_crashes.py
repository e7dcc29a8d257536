"""A job killed at any of its steps goes on as if nothing had been, with what lags and what can't be read."""

from __future__ import annotations

import pytest

from anabranch import steps
from tests.acceptance.harness import Workspace, broken, flights, held_back

pytestmark = pytest.mark.acceptance

FLIGHTS = flights(seed=3, count=9000, days=4, keyless=0)
AHEAD, BEHIND = held_back(FLIGHTS, days=2)
BROKEN = broken(40)
SMALL, LARGER = 1500, 3000


def test_killed_at_its_steps(workspace: Workspace) -> None:
    """Two kills, the second in the run after the first. Soak kills at each step alone, and at any time."""
    workspace.put(AHEAD[:1000])
    workspace.put_broken(BROKEN)
    workspace.put(AHEAD[1000:])
    lanes = [killed(workspace, 0, steps.PUBLISHED, 2)]
    lanes.append(killed(workspace, 1, steps.COMMITTED, workspace.committed("1-") + 1))

    workspace.put(BEHIND)
    workspace.finish(job__max_rows_per_batch=LARGER)
    workspace.check_outputs(FLIGHTS)
    workspace.check_dead_letters(BROKEN)
    assert all(workspace.lane(lane).committed >= 3 for lane in lanes)


def killed(workspace: Workspace, stage: int, step: str, batch: int) -> str:
    """Run the job with small batches to a step, and kill it there; gives the lane."""
    hold = f"{stage}-:{step}:{batch}"
    process = workspace.start("run", "delays.py", "--available-now", hold=hold, job__max_rows_per_batch=SMALL)
    lane = process.held()
    process.kill()
    left = workspace.lane(lane)
    assert left.committed == (batch if step == steps.COMMITTED else batch - 1)
    assert left.planned >= batch
    assert left.read <= 0.8 * len(FLIGHTS)
    return lane
