"""A job that reads its input again while it runs: state that is cleared is as if nothing had been before."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.testing import KILL, REWIND, run
from tests.soak.histories import check, job, row

pytestmark = pytest.mark.usefixtures("spark")
COUNT = 240


@pytest.mark.long
def test_state_is_cleared() -> None:
    again(REWIND("earliest", state="clear"))


@pytest.mark.long
def test_state_is_kept_and_a_kill_changes_nothing() -> None:
    again(REWIND({"in": {0: 12, 1: 0, 2: 30}}, state="keep"), KILL)


def again(rewind: REWIND, *others: Any) -> None:
    rows = [row(n) for n in range(COUNT)]
    result = run(
        job(), {"in": [*rows[:150], rewind, *rows[150:200], *others, *rows[200:]]}, partitions=3, max_rows_per_batch=60
    )
    check(result, COUNT, [rewind])
    assert len(result["seen"]) > COUNT
