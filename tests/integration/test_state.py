"""How much state the lanes of a job keep, and whose it is."""

from __future__ import annotations

import hashlib
from pathlib import Path
from urllib.parse import urlsplit

from pyspark.sql import SparkSession

from anabranch.container.folder import Folder
from anabranch.model.hashing import bucket
from anabranch.model.lane import Lane
from anabranch.spark import state
from anabranch.spark.state import Held
from tests.integration.harness import Site
from tests.integration.parted import KEYS, Parted


def tree(folder: Folder) -> dict[str, str]:
    """What is in a folder on a local disk."""
    root = Path(urlsplit(folder.uri).path)
    return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in root.rglob("*") if file.is_file()}


def owned(lane: Lane, factor: int) -> int:
    """The keys of both partitions that are a lane's."""
    mine = {(ssp.partition, max(0, ssp.key_bucket)) for ssp in lane.ssps}
    return sum((partition, bucket(key.encode(), 0, factor)) in mine for partition in (0, 1) for key in KEYS)


def test_state_that_stayed_behind_is_told(spark: SparkSession, site: Site) -> None:
    parted = Parted(site)
    parted.put(40)
    (whole,) = parted.job.lanes
    alone = _held(spark, parted, whole)
    assert (alone.rows, alone.foreign_rows, alone.foreign_bytes) == (80, 0, 0)
    parted.scale(4, 2)
    parted.put(20)
    several = parted.job.lanes
    before = [tree(parted.job.folder(lane)) for lane in several]
    found = [_held(spark, parted, lane) for lane in several]
    assert [tree(parted.job.folder(lane)) for lane in several] == before, "it only looks"
    assert len(several) == 2
    for lane, held in zip(several, found, strict=True):
        assert held.rows == 80
        assert held.rows - held.foreign_rows == owned(lane, 4)
        assert 0 < held.foreign_bytes < held.bytes
    assert sum(held.foreign_rows for held in found) == 80
    assert sum(held.foreign_bytes for held in found) == alone.bytes


def _held(spark: SparkSession, parted: Parted, lane: Lane) -> Held:
    folder = parted.job.folder(lane)
    return state.held(spark, lane, folder.uri, folder.committed(), keys=1)
