"""Scenarios whose job has functions in every second round of their cases."""

from __future__ import annotations

import shutil

from tests.acceptance.harness import Workspace
from tests.jobs import JOBS

__all__ = ["in_turn"]


def in_turn(seed: int, cases: int, workspace: Workspace) -> str:
    """With the seeds 0 to ``cases`` - 1 the job ``delays`` stays as it is, with the next ones it has functions that
    change nothing, and so on. What to add to a result.
    """
    if seed // cases % 2 == 0:
        return ""
    shutil.copy(JOBS / "with_functions" / "delays.py", workspace.folder)
    return " (with functions)"
