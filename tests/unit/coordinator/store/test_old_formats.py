"""What older commits wrote of a job (tests/acceptance/old_jobs) is read: store, streams and lane folders, one by one.

That such a job goes on exactly is shown with Spark, in tests/acceptance/test_old_jobs.py."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from anabranch.container.checkpoint import offset_log
from anabranch.container.checkpoint.offset_log import Entry
from anabranch.coordinator.store import Store
from anabranch.event_time import progress
from anabranch.model.lane import Lane
from anabranch.systems.embedded import EmbeddedSystem
from anabranch.systems.kafka import markers
from anabranch.systems.kafka.markers import Marker
from tests.support.paths import OLD_JOBS

ARCHIVES = OLD_JOBS
NAMES = sorted(path.name.removesuffix(".tar.xz") for path in ARCHIVES.glob("*.tar.xz"))


@pytest.fixture(params=NAMES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    with tarfile.open(ARCHIVES / f"{request.param}.tar.xz") as archive:
        archive.extractall(tmp_path)  # ours; Python 3.11.0 has no filters
    return tmp_path / ".anabranch"


def lanes(place: Path) -> list[Lane]:
    return list(Store.open_existing(f"sqlite:///{place}/coordinator.db").lanes("delays").values())


def entries(place: Path, lane: Lane) -> dict[int, Entry]:
    """The planned batches of a lane, by their numbers."""
    folder = place / "lanes" / "delays" / lane.id / str(lane.folder_epoch) / "offsets"
    return {int(path.name): offset_log.parse(path.read_text()) for path in folder.glob("[0-9]*")}


def test_there_are_old_jobs() -> None:
    assert {"killed-c9dacf9", "stopped-c9dacf9"} <= set(NAMES)


def test_streams_are_read_to_their_ends(place: Path) -> None:
    system = EmbeddedSystem(place / "streams")
    assert sum(system.ends("flights").values()) == 600
    for stream in system.streams():
        for number, end in system.ends(stream).items():
            assert sum(batch.num_rows for _, batch in system.read(stream, number, [(0, end)])) == end


def test_positions_in_a_lane_s_folder_are_where_the_store_says_that_it_stopped(place: Path) -> None:
    for lane in lanes(place):
        planned = entries(place, lane)
        assert planned
        assert all(entry.streams() for entry in planned.values())
        if lane.final:  # it was stopped
            last = planned[max(planned)]
            assert {f"{each.ssp.stream}/{each.ssp.partition}": each.offset for each in lane.final} == {
                f"{stream}/{partition}": offset
                for stream, source in last.streams().items()
                for partition, offset in last.positions(source).items()
            }


def test_event_time_is_where_it_was(place: Path) -> None:
    for lane in lanes(place):
        folder = place / "lanes" / "delays" / lane.id / str(lane.folder_epoch)
        if (folder / "progress.json").exists():
            left = progress.from_builtins(json.loads((folder / "progress.json").read_text())["progress"])
            assert left.watermark == lane.watermark


def test_a_marker_in_kafka_is_read() -> None:
    written = '{"v":1,"lane":"1-0a1b2c3d","batch":4,"epoch":7,"instance":"i","closed":false,"rows":30}'  # by c9dacf9
    assert markers.decode(5, written) == Marker(lane="1-0a1b2c3d", batch=4, epoch=7, instance="i", rows=30)
