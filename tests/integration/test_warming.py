"""The throw-away job of a container that stands by."""

from __future__ import annotations

import tempfile
import threading
from collections import defaultdict
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from anabranch import crash_points
from anabranch.cli import warming
from anabranch.container.checkpoint import claims


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder that it can find: the working folder, and what settings of a job would name."""
    here, temporary = tmp_path / "here", tmp_path / "temporary"
    for folder in (here, temporary):
        folder.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    for name, value in (("STORAGE__ROOT", "lanes"), ("SYSTEMS__EMBEDDED__ROOT", "streams"), ("JOB__ATTEMPTS", "7")):
        monkeypatch.setenv(f"ANABRANCH__{name}", value)
    monkeypatch.setenv("ANABRANCH__SYSTEMS__DEFAULT", "kafka")
    monkeypatch.setenv("ANABRANCH__SYSTEMS__KAFKA__BOOTSTRAP_SERVERS", "127.0.0.1:1")
    monkeypatch.setenv("ANABRANCH__COORDINATOR__STORE", "sqlite:///coordinator.db")
    (here / "anabranch.toml").write_text('[storage]\nroot = "lanes"\n')
    return tmp_path


def test_it_runs_both_its_lanes_and_leaves_nothing_behind(
    spark: SparkSession, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does it release the folders of lanes that have started in the meantime, as a container does that ends."""
    seen: dict[str, list[int]] = defaultdict(list)
    released: list[str] = []
    monkeypatch.setattr(claims, "end", lambda: released.append("all"))

    def see(step: str, lane: str, batch: int) -> None:
        if step == crash_points.PUBLISHED:
            seen[lane].append(batch)

    with crash_points.watched(see):
        warming.warm(spark, threading.Event())
    assert released == []
    assert {lane.partition("-")[0] for lane in seen} == {"0", "1"}
    assert all(batches == list(range(len(batches))) and len(batches) >= 2 for batches in seen.values()), seen
    _check_untouched(spark, outside)


@pytest.mark.parametrize("when", ["before it begins", "in its first batch"])
@pytest.mark.suite(cases=1)
def test_it_ends_when_a_seat_is_there(spark: SparkSession, outside: Path, when: str) -> None:
    leaving = threading.Event()
    seen: dict[str, list[tuple[str, int]]] = defaultdict(list)

    def see(step: str, lane: str, batch: int) -> None:
        leaving.set()
        seen[step].append((lane, batch))

    if when == "before it begins":
        leaving.set()
    with crash_points.watched(see):
        warming.warm(spark, leaving)
    assert bool(seen) == (when != "before it begins")
    assert {*seen[crash_points.PUBLISHED]} <= {*seen[crash_points.PLANNED]}, (
        "a batch that has begun has ended, or is broken off"
    )
    assert all(batch < 5 for _, batch in seen[crash_points.PLANNED]), seen
    _check_untouched(spark, outside)


def _check_untouched(spark: SparkSession, outside: Path) -> None:
    assert sorted(path.relative_to(outside) for path in outside.rglob("*")) == [
        Path("here"),
        Path("here/anabranch.toml"),
        Path("temporary"),
    ]
    assert not spark.streams.active
