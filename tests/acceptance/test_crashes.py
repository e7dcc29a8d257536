"""A job killed in a batch goes on as if nothing had been, with what lags and what can't be read."""

from __future__ import annotations

import pytest

from anabranch import crash_points
from tests.acceptance.harness import Workspace, broken, flights, held_back

pytestmark = pytest.mark.acceptance

FLIGHTS = flights(seed=3, count=9000, days=4, keyless=0)
AHEAD, BEHIND = held_back(FLIGHTS, days=2)
BROKEN = broken(40)
SMALL, LARGER = 1500, 3000


@pytest.mark.long
def test_killed_at_a_step(workspace: Workspace) -> None:
    """Between publishing and the commit of a batch. Soak kills at each step, of each stage, and at any time."""
    workspace.put(AHEAD[:1000])
    workspace.put_broken(BROKEN)
    workspace.put(AHEAD[1000:])
    hold = f"0-:{crash_points.PUBLISHED}:2"
    process = workspace.start("run", "delays.py", "--available-now", hold=hold, job__max_rows_per_batch=SMALL)
    lane = process.held()
    process.kill()
    left = workspace.lane(lane)
    assert (left.committed, left.planned) == (1, 2)
    assert left.read <= 0.8 * len(FLIGHTS)

    workspace.put(BEHIND)
    workspace.finish(job__max_rows_per_batch=LARGER)
    workspace.check_outputs(FLIGHTS)
    workspace.check_dead_letters(BROKEN)
    assert workspace.lane(lane).committed >= 3
