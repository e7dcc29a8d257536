"""A job killed at any moment, also in its first seconds, goes on when it is started again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.soak import kill_any

pytestmark = pytest.mark.acceptance


SEED, WITHIN = 424, 16.5
"""Its moments: when the first batch is about to be planned, and in the first seconds, with the process group."""


def test_killed_at_any_moment(tmp_path: Path) -> None:
    """Soak has seeds of each job, and of containers."""
    workspace = kill_any.workspace_of(SEED, tmp_path, None)
    try:
        kills = kill_any.once(workspace, SEED, kills=2, within=WITHIN)
    finally:
        workspace.close()
    assert [kill.group for kill in kills] == [False, True]
    assert kills[1].after < kill_any.EARLY < kills[0].after
