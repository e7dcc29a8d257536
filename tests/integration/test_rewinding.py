"""A job that reads its input again while it runs: state that is cleared is as if nothing had been before."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.testing import KILL, REWIND, SCALE, run
from tests.histories import check, job, row

pytestmark = pytest.mark.usefixtures("spark")
COUNT = 240


@pytest.mark.parametrize(
    "rewind", [REWIND("earliest", state="clear"), REWIND({"in": {0: 12, 1: 0, 2: 30}}, state="keep")], ids=str
)
def test_a_rewind_between_a_factor_and_a_kill(rewind: REWIND) -> None:
    rows: list[Any] = [row(n) for n in range(COUNT)]
    for place, sentinel in ((200, KILL), (150, rewind), (20, SCALE(4))):
        rows.insert(place, sentinel)
    result = run(job(), {"in": rows}, partitions=3, max_rows_per_batch=60, timeout=240)
    check(result, COUNT, [rewind])
    again = len(result["seen"]) - COUNT
    assert again > 0
