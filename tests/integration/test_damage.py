"""Files of a stopped lane are damaged, one at a time: it goes on exactly, or fails at once and says why."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from anabranch import Job
from anabranch.container.error_text import is_final
from anabranch.errors import DamagedError
from anabranch.systems.embedded import EmbeddedSystem
from tests.integration.harness import Deployed, Site

EXACT = ""
REFUSED = "can't continue without it"
SET_BACK = "but its folder"
WITHIN = 10.0
KEYS = [b"a", b"b", b"c", b"d"]

Harm = Callable[[Path], None]


class Stopped:
    """A lane with state that has run three batches and was stopped, with records that it hasn't read yet."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        (root / "site").mkdir()
        self.site = Site(spark, root / "site")
        self._kept = root / "kept"
        self.site.log.create("in", 1)
        for batch in range(3):
            self._put(batch)
        job = Job("j")
        job.read("in", key="k string", schema="n int").agg(n="count(*)", name="counts").write("out")
        self.run: Deployed = self.site.deployed(job, max_rows_per_batch=len(KEYS))
        self.run.ran()
        assert [report.progress.batch for report in self.run.reports.values()] == [2]
        self._put(3)
        self._lanes = list(self.run.lanes)
        self._keep(self.site.root / "lanes", self._kept / "lanes")
        self._keep(self.site.root / "log", self._kept / "log")

    def _put(self, batch: int) -> None:
        self.site.put("in", 0, [{"n": batch}] * len(KEYS), KEYS)

    @staticmethod
    def _keep(source: Path, target: Path) -> None:
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(source, target)

    def restored(self) -> None:
        self._keep(self._kept / "lanes", self.site.root / "lanes")
        self._keep(self._kept / "log", self.site.root / "log")
        self.site.system = EmbeddedSystem(self.site.log.root)  # the former one knows later ends
        self.run.lanes = [msgspec.structs.replace(lane) for lane in self._lanes]

    @property
    def folder(self) -> Path:
        (lane,) = self.run.lanes
        return self.site.root / "lanes" / lane.job / lane.id / str(lane.folder_epoch)

    @property
    def counts(self) -> list[tuple[bytes, int]]:
        """Every count that was ever written, by key."""
        found = zip(self.site.all_records("out"), self.site.values("out"), strict=True)
        return sorted((record["key"], value["n"]) for record, value in found)


@pytest.fixture(scope="module")
def once(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Stopped:
    return Stopped(spark, tmp_path_factory.mktemp("damage"))


@pytest.fixture
def stopped(once: Stopped) -> Stopped:
    once.restored()
    return once


def empty(path: Path) -> None:
    path.write_bytes(b"")


def half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def gone(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def no_checksum(path: Path) -> None:
    path.with_name(f".{path.name}.crc").unlink()


@pytest.mark.parametrize(
    ("name", "harm", "text"),
    [
        ("offsets/2", empty, REFUSED),
        ("offsets/2", half, REFUSED),
        ("offsets/2", gone, SET_BACK),
        ("commits/1", empty, EXACT),
        ("commits/2", empty, EXACT),
        ("commits/2", half, EXACT),
        ("state/0/0/3.changelog", empty, EXACT),
        ("state/0/1/3.changelog", gone, EXACT),
        ("state/0/0/3.zip", empty, EXACT),
        ("state/0/1/2.zip", empty, EXACT),
        ("state/0/0/1.changelog", empty, REFUSED),
        ("state/0/0/1.changelog", half, REFUSED),
        ("state/0/1/1.changelog", gone, REFUSED),
        ("state/0/0", gone, REFUSED),
        ("state", gone, REFUSED),
        ("state/0/_metadata/metadata", empty, REFUSED),
        ("metadata", empty, EXACT),
        ("metadata", gone, EXACT),
        ("streams.json", half, "is damaged"),
        ("starting.json", empty, "is damaged: it is empty"),
        ("outputs.json", empty, EXACT),
        ("state/0/0/3.changelog", no_checksum, EXACT),
    ],
)
@pytest.mark.suite(cases=4)
def test_a_damaged_file_is_made_good_or_told_of_at_once(stopped: Stopped, name: str, harm: Harm, text: str) -> None:
    harm(stopped.folder / name)
    before = stopped.site.system.ends("out")
    begun = time.monotonic()
    (report,) = stopped.run.run().values()
    if text == EXACT:
        assert report.phase == "ended", report.error
        assert stopped.counts == sorted((key, n) for key in KEYS for n in range(1, 5))
        return
    assert report.phase == "failed"
    assert time.monotonic() < begun + WITHIN
    assert report.error is not None
    assert text in report.error
    assert str(stopped.folder) in report.error.replace("file:", "")
    assert "checkpoint" not in report.error  # Spark advises to delete it
    assert stopped.site.system.ends("out") == before


def test_an_emptied_folder_is_no_new_one(stopped: Stopped) -> None:
    shutil.rmtree(stopped.site.root / "log" / "out")
    stopped.site.log.create("out", 1)  # so the outputs know nothing of the lane, as those that repeat records
    for name in ("offsets", "commits", "state", "outputs.json"):
        gone(stopped.folder / name)
    (lane,) = stopped.run.lanes
    stopped.run.lanes = [msgspec.structs.replace(lane, last_batch=2)]
    (report,) = stopped.run.run().values()
    assert report.phase == "failed"
    assert report.error is not None
    assert "/offsets has no batch after -1, but the store knows batch 0 of the lane: it contains" in report.error
    assert stopped.site.system.ends("out") == {0: 0}


def test_a_batch_that_ends_before_it_begins_is_forgotten(stopped: Stopped) -> None:
    """Spark's Kafka connector plans one if an input has lost its end. It could never run it, even if the input has
    grown since."""
    (lane,) = stopped.run.lanes
    folder = stopped.run.folder(lane)
    folder.plan(folder.entry(2).with_positions(folder.sources(2)["in"], {0: 4}))
    stopped.run.ran()
    assert stopped.counts == sorted((key, n) for key in KEYS for n in range(1, 5))


def test_an_output_that_was_set_back_is_seen(stopped: Stopped) -> None:
    manifests = sorted((stopped.site.root / "log" / "out" / "0" / "manifest").glob("[0-9]*.json"))
    gone(manifests[-1])
    (report,) = stopped.run.run().values()
    assert report.phase == "failed"
    assert report.error is not None
    assert "embedded/out/0 ends at offset 8, but it used to end at 12:" in report.error
    assert 'set [streams.out] on_data_loss = "earliest"' in report.error
    assert stopped.site.system.ends("out") == {0: 8}


def test_nothing_that_is_damaged_is_tried_again() -> None:
    assert is_final(DamagedError("", ""))
