"""A job whose factor changes while it runs writes what it would have: each record once, each key in order."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from anabranch import Job
from anabranch.container.lane.building import QueryBuilder
from anabranch.container.reconciler import Container
from anabranch.coordinator.store import Store
from anabranch.model.lane import Lane, LaneState
from anabranch.testing import KILL, SCALE, run
from tests.soak.histories import check, job, row, values

pytestmark = pytest.mark.usefixtures("spark")


@pytest.mark.long
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


def test_lanes_go_on_while_what_follows_them_is_prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Output stands still only from when they are closed: taking transactions over takes Kafka some time."""
    serve, take, went_on, serving = Container.serve, QueryBuilder.take, list[bool](), list[Container]()

    def noted(container: Container, *rest: Any) -> None:
        serving.append(container)
        serve(container, *rest)

    def slow(builder: QueryBuilder, lane: Lane) -> None:
        container = serving[-1]
        before = {report.lane: report.progress.batch for report in container.reports}
        deadline = time.monotonic() + 60
        while not (further := _further(container, before)) and time.monotonic() < deadline:
            time.sleep(0.02)
        went_on.append(further)
        take(builder, lane)

    monkeypatch.setattr(Container, "serve", noted)
    monkeypatch.setattr(QueryBuilder, "take", slow)
    made = Job("going-on")
    made.read("in", schema="n int").where("n >= 0").write("out")
    rows: list[Any] = [{"n": n} for n in range(120)]
    rows.insert(60, SCALE(4))
    result = run(made, {"in": rows}, partitions=1, max_rows_per_batch=2, timeout=240, folder=tmp_path / "run")
    assert sorted(row["n"] for row in values(result, "out")) == list(range(120))
    assert went_on
    assert all(went_on)


def _further(container: Container, before: dict[str, int]) -> bool:
    """Whether a lane has committed a batch besides the one that may have run already."""
    return any(report.progress.batch > before.get(report.lane, 10**6) + 1 for report in container.reports)
