"""A job whose factor changes while it runs writes what it would have: each record once, each key in order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from anabranch.coordinator.store import Store
from anabranch.model.lane import LaneState
from anabranch.testing import KILL, SCALE, run
from tests.histories import check, job, row

pytestmark = pytest.mark.usefixtures("spark")


def test_factors_and_kills(tmp_path: Path) -> None:
    """1 → 4 before there is a record, → 1 in the middle of a backlog, then killed."""
    rows: list[Any] = [row(n) for n in range(300)]
    for place, sentinel in ((220, KILL), (120, SCALE(1)), (0, SCALE(4))):
        rows.insert(place, sentinel)
    result = run(job(), {"in": rows}, partitions=3, max_rows_per_batch=30, timeout=240, folder=tmp_path / "run")
    check(result, 300)
    store = Store(f"sqlite:///{tmp_path / 'run' / 'coordinator.db'}")
    lanes = list(store.lanes("scaled").values())
    open_ = [lane for lane in lanes if lane.state is not LaneState.CLOSED]
    assert (len(lanes), len(open_), {lane.factor for lane in open_}) == (9, 3, {1})
    assert store.model("scaled", 1, 3).factor == 1
    store.close()
