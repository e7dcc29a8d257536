"""Records that kill their Python worker don't end a job."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.soak import deadly

pytestmark = pytest.mark.acceptance


@pytest.mark.long
def test_records_that_kill_their_worker_are_dead_letters(tmp_path: Path) -> None:
    """Spark tries the task again. Soak does it with 50,000 records, and sees how much longer it takes."""
    workspace = deadly.workspace_of(tmp_path, None)
    try:
        deadly.ran(workspace, 0, 6000, [1734, 1735, 4321])
    finally:
        workspace.close()
