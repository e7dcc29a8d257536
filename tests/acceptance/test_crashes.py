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


@pytest.mark.parametrize(
    ("stage", "kills"),
    [(0, [(steps.PLANNING, 1), (steps.PUBLISHED, 2)]), (1, [(steps.PLANNED, 1), (steps.COMMITTED, 2)])],
)
def test_killed_at_its_steps(workspace: Workspace, stage: int, kills: list[tuple[str, int]]) -> None:
    """Each kill is in the run after the one before. Soak kills at each step alone, and at any time."""
    workspace.put(AHEAD[:1000])
    workspace.put_broken(BROKEN)
    workspace.put(AHEAD[1000:])
    for step, batch in kills:
        hold = f"{stage}-:{step}:{batch}"
        process = workspace.start("run", "delays.py", "--available-now", hold=hold, job__max_rows_per_batch=SMALL)
        lane = process.held()
        process.kill()
        left = workspace.lane(lane)
        assert left.committed >= (batch if step == steps.COMMITTED else batch - 1)
        assert left.planned >= (batch - 1 if step == steps.PLANNING else batch)
        assert left.read <= 0.8 * len(FLIGHTS)

    workspace.put(BEHIND)
    workspace.finish(job__max_rows_per_batch=LARGER)
    workspace.check_outputs(FLIGHTS)
    workspace.check_dead_letters(BROKEN)
    assert workspace.lane(lane).committed >= 3

    if stage == 0:
        check_that_another_run_does_nothing(workspace)


def check_that_another_run_does_nothing(workspace: Workspace) -> None:
    ends = workspace.ends()
    again = workspace.finish()
    assert again.stderr.count(" 0 rows read in this run") == 2
    assert workspace.ends() == ends
