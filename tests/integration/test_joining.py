"""Two streams joined within a time while the job is cut, killed and expanded: the join itself comes out."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from anabranch import Job
from anabranch.api.stream import Stream
from anabranch.coordinator.store import Store
from anabranch.errors import GraphError
from anabranch.grouping import expansion
from anabranch.spark.query import resolution
from anabranch.testing import EXPAND, KILL, SCALE, run
from tests.integration.harness import AT, Site
from tests.integration.parted import Parted
from tests.soak import joining

pytestmark = pytest.mark.usefixtures("spark")

COUNT = 120


@pytest.mark.long
def test_a_left_join_is_cut_killed_and_expanded(tmp_path: Path) -> None:
    """4 and 6 partitions are two groups; factor 4; it is killed; then the 6 become 12, with one side far ahead."""
    left, right = ([make(n) for n in range(COUNT)] for make in (joining.asked, joining.told))
    rows: dict[str, list[Any]] = {
        "asked": [joining.message(row) for row in (*left, *joining.last(COUNT))],
        "told": [joining.message(row) for row in (*right, *joining.last(COUNT))],
    }
    for place, sentinel in ((90, EXPAND(12)), (60, KILL), (30, SCALE(4))):
        rows["told"].insert(place, sentinel)
    for place, sentinel in ((70, KILL), (25, SCALE(4))):
        rows["asked"].insert(place, sentinel)
    folder = tmp_path / "run"
    result = run(
        joining.job(),
        rows,
        partitions={"asked": 4, "told": 6},
        grouper="cogroup",
        max_rows_per_batch=50,
        timeout=200,
        folder=folder,
    )
    found, wanted = joining.written(result), joining.computed(left, right, "left")
    assert found == wanted
    assert any(told is None for _, _, told in wanted)
    store = Store(f"sqlite:///{folder / 'coordinator.db'}")
    generation = max(lane.deployment for lane in store.lanes("joined").values())
    (stage,) = store.model("joined", generation, 3).stages
    assert expansion.partitions(stage) == {"embedded/asked": 4, "embedded/told": 12}
    assert expansion.base_partitions(stage) == {"embedded/asked": 4, "embedded/told": 6}
    assert len(stage.tasks) == 2 * 4
    store.close()


SIDE: dict[str, Any] = {"schema": "n int, at timestamp", "event_time": "at", "watermark": "1 minute"}


def sides(key: str = "k string") -> tuple[Job, Stream, Stream]:
    job = Job("j")
    return job, job.read("a", key="k string", **SIDE), job.read("b", key=key, **SIDE)


def test_columns_are_those_of_both_sides_and_the_key_once() -> None:
    job, a, b = sides()
    a.join(b, within="1 minute", prefix="b_").write("out")
    columns = resolution.columns(job.graph, {}, {}, __file__)[2]
    assert columns.simpleString() == "struct<n:int,at:timestamp,k:string,b_n:int,b_at:timestamp>"


def test_a_column_of_both_sides_is_refused() -> None:
    job, a, b = sides()
    a.join(b, within="1 minute").write("out")
    with pytest.raises(GraphError, match=r"join 'join' \(.*\) has the column 'n' on both sides"):
        resolution.columns(job.graph, {}, {}, __file__)


def test_keys_of_two_types_are_refused() -> None:
    job, a, b = sides("k int")
    a.join(b, within="1 minute", prefix="b_").write("out")
    with pytest.raises(GraphError, match="key column 'k' is string on the left, and int on the right"):
        resolution.columns(job.graph, {}, {}, __file__)


@pytest.mark.parametrize("function", [pytest.param(False, marks=pytest.mark.long), True])
def test_what_no_side_can_take_is_put_aside(site: Site, function: bool) -> None:
    """Null keys and null times on both sides; late rows are counted; a row as old as the watermark is not late."""
    for stream in ("a", "b"):
        site.log.create(stream, 1)
    job, a, b = sides()
    if function:
        b = b.map(lambda message: message)
    a.join(b, within="0 seconds", prefix="b_").write("out")
    run = site.deployed(job, on_error="dead-letter", on_null_key="dead-letter")

    def put(stream: str, *rows: tuple[bytes | None, int | None]) -> None:
        at = [None if second is None else (AT + timedelta(seconds=second)).isoformat() for _, second in rows]
        site.put(stream, 0, [{"n": n, "at": each} for n, each in enumerate(at)], [key for key, _ in rows])

    for stream in ("a", "b"):
        put(stream, (b"k", 0), (None, 1), (b"k", None), (b"k", 60))
    run.ran()
    assert len(site.values("out")) == 2
    for stream in ("a", "b"):
        assert len(site.all_records(f"{stream}-dead-letters")) == 2
    assert {report.event_time.watermark for report in run.reports.values()} == {int(AT.timestamp() * 1000)}
    put("a", (b"late", -1), (b"k", 0))
    put("b", (b"late", -1))
    reports = run.ran()
    assert len(site.values("out")) == 3
    assert [report.event_time.late_groups for report in reports.values()] == [2]


@pytest.mark.long
@pytest.mark.parametrize("scope", ["ssp", "lane"])
def test_sides_meet_by_another_key_behind_a_stage(site: Site, scope: str) -> None:
    for stream in ("a", "b"):
        site.log.create(stream, 2)
    job, a, b = sides()
    by_n = [side.partition_by("n", name=f"{name}-by-n") for side, name in ((a, "a"), (b, "b"))]
    by_n[0].join(by_n[1], within="1 minute", how="left", prefix="b_").write("out")
    minutes = {"a": [(0, 0), (1, 0), (2, 60), (2, 300)], "b": [(0, 1), (1, 2), (2, 60), (2, 300)]}
    for stream, its in minutes.items():
        rows = [{"n": n, "at": (AT + timedelta(minutes=minute)).isoformat()} for n, minute in its]
        for partition in (0, 1):
            site.put(stream, partition, rows, [b"k"] * len(rows))
    site.deployed(job, watermark_scope=scope).ran()
    found = Counter((value["n"], "b_at" in value) for value in site.values("out"))
    assert found == {(0, True): 4, (1, False): 2, (2, True): 8}


@pytest.mark.long
def test_a_row_that_finds_none_comes_once_when_state_has_parted(site: Site) -> None:
    """Each half has the state of both, and lets go of it by itself."""
    job, a, b = sides()
    a.join(b.where("n % 3 > 0"), within="3 seconds", how="left", prefix="b_").write("out")
    parted = Parted(site, job, second, inputs=("a", "b"))
    parted.put(30)
    parted.scale(4, 2)
    assert len(parted.job.lanes) == 2
    parted.put(90)
    closed = 119 - 60 - 3  # the last, less the watermark, less what is within
    found = Counter((value["n"], value.get("b_n")) for value in site.values("out"))
    pairs = {(n, n): 2 for n in range(120) if n % 3}
    assert found == Counter({**pairs, **{(n, None): 2 for n in range(0, closed, 3)}})


def second(n: int) -> dict[str, Any]:
    """A record a second."""
    return {"n": n, "at": (AT + timedelta(seconds=n)).isoformat()}
