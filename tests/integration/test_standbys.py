"""Standbys: copies of a lane's folder that follow it, and that others begin with. They save time and decide nothing."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import msgspec
import pytest

from anabranch import crash_points
from anabranch.container.checkpoint import claims, copying
from anabranch.container.checkpoint.filesystem import Tree
from anabranch.container.checkpoint.folder import Folder
from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.store.store import Store
from anabranch.protocol.commands import ScaleRequest
from anabranch.protocol.deployment import StartRequest
from anabranch.protocol.status import JobStatus
from anabranch.systems.systems import Systems
from tests.integration.counting import counting, counts, expected, feed
from tests.integration.harness import Deployed, Site
from tests.integration.serving import served_by_two, until
from tests.support.logs import captured


class Killed(BaseException):
    """The process ends here, and cleans nothing up."""


def content(folder: Folder) -> dict[str, bytes]:
    """What others go on from, by name."""
    root = Path(folder.uri.removeprefix("file:"))
    kept = [path for path in root.glob("*/**/*") if path.is_file()]
    return {str(path.relative_to(root)): path.read_bytes() for path in kept}


def ran(site: Site, batches: int = 2) -> tuple[Deployed, Folder]:
    """A lane of state that has run some batches, and its folder."""
    run = counting(site)
    for number in range(batches):
        feed(site, 0, 5 * number, 5)
        run.ran()
    return run, run.folder(run.lanes[0])


@pytest.mark.long
def test_a_standby_follows_its_folder_and_has_nothing_that_is_being_written(site: Site) -> None:
    run, folder = ran(site)
    standby = copying.standby(folder, 0)
    state = Path(folder.uri) / "state" / "0" / "0"
    (state / "SSTs").mkdir(exist_ok=True)
    (state / "SSTs" / "old.sst").touch()
    assert copying.refresh(folder, standby) == folder.committed() >= 1
    before = content(standby)
    assert before == content(folder)
    (state / ".9.changelog.1234.tmp").write_bytes(b"half of it")
    (state / "SSTs" / "old.sst").unlink()  # Spark needs it no more
    feed(site, 0, 10, 5)
    run.ran()
    copied: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        was = Tree.copy
        patch.setattr(Tree, "copy", lambda *args, **more: (copied.append(args[1]), was(*args, **more)))
        assert copying.refresh(folder, standby) == folder.committed()
    whole = content(folder)
    assert content(standby) == {name: its for name, its in whole.items() if not name.endswith(".tmp")}
    assert {*whole} - {*before} <= {*copied, "state/0/0/.9.changelog.1234.tmp"}
    assert not {
        name for name in copied if whole.get(name) == before.get(name) and "state" in name and name[-4:] != ".crc"
    }


def old(folder: Folder, standby: Folder) -> None:
    """It lacks the last batch, and a file of the one before."""
    root = Path(standby.uri)
    last = folder.committed()
    for name in (f"commits/{last}", f"offsets/{last}"):
        (root / name).unlink()
    next(iter(root.glob("state/0/*/*.changelog"))).unlink()


def torn(_: Folder, standby: Folder) -> None:
    found = next(iter(Path(standby.uri).glob("state/0/*/*.changelog")))
    found.write_bytes(found.read_bytes()[:-3])


def overtaken(folder: Folder, standby: Folder) -> None:
    """A file was written again, and is as long as before."""
    name = f"offsets/{folder.committed()}"
    was = Path(standby.uri, name).read_bytes()
    Path(standby.uri, name).write_bytes(was[::-1])
    os.utime(Path(standby.uri, name), (time.time() - 60,) * 2)


def more(_: Folder, standby: Folder) -> None:
    """A batch that the folder doesn't have, as if it had been taken back."""
    root = Path(standby.uri)
    for name in ("offsets", "commits"):
        shutil.copyfile(root / name / "1", root / name / "99")


def barred(_: Folder, standby: Folder) -> None:
    """A folder where a file should be."""
    found = next(iter(Path(standby.uri).glob("state/0/*/*.changelog")))
    found.unlink()
    found.mkdir()
    (found / "x").touch()


@pytest.mark.parametrize("local", [True, False])
@pytest.mark.long
def test_who_begins_with_a_standby_has_what_a_copy_has(
    site: Site, monkeypatch: pytest.MonkeyPatch, local: bool
) -> None:
    run, _ = ran(site)
    if not local:
        monkeypatch.setattr(Tree, "local", None)
        monkeypatch.setattr(claims, "take", lambda *_: None)  # it is a disk: no claims can be made there
    folder = run.folder(run.lanes[0])
    cold = content(copying.clone(folder, f"file:{site.root}/cold"))
    assert cold == content(folder)
    standby = copying.standby(folder, 0)
    for odd in (lambda *_: None, old, torn, overtaken, more, barred):
        copying.refresh(folder, standby)
        odd(folder, standby)
        with captured() as said:
            warm = copying.clone(folder, f"file:{site.root}/{odd.__name__}/1")
        assert content(warm) == cold, odd
        assert warm.committed() == folder.committed()
        assert not standby.exists()
        (told,) = [line for line in said if line["event"] == "a folder was copied"]
        assert told["warm"]
        assert (odd is barred) is any("can't be used" in line["event"] for line in said)


def test_a_lane_goes_on_exactly_from_a_standby_and_after_a_kill_in_the_middle(site: Site) -> None:
    run, folder = ran(site)
    copying.refresh(folder, copying.standby(folder, 0))
    feed(site, 0, 10, 5)
    feed(site, 1, 0, 5)
    target = f"file:{site.lane_folders.root}/{run.lanes[0].job}/{run.lanes[0].id}/{run.epoch}"

    def kill(step: str, lane: str, batch: int) -> None:
        assert (step, lane, batch) == (crash_points.ADOPTED, run.lanes[0].id, folder.committed())
        raise Killed

    with pytest.raises(Killed), crash_points.watched(kill):
        copying.clone(folder, target)
    assert Folder(site.spark, target).exists()
    assert not copying.standby(folder, 0).exists()
    run.epoch += 1  # whoever comes then
    run.lanes = [msgspec.structs.replace(run.lanes[0], abandoned=True)]
    run.ran()
    assert run.lanes[0].folder_epoch == run.epoch - 1
    assert counts(site) == expected({0: 15, 1: 5})


@pytest.mark.long
def test_standbys_of_a_parted_lane_are_for_one_follower_each(site: Site) -> None:
    _, folder = ran(site)
    for number in (0, 1):
        copying.refresh(folder, copying.standby(folder, number))
    with captured() as said:
        made = [copying.clone(folder, f"file:{site.root}/half-{number}/1") for number in range(3)]
    assert [line["warm"] for line in said if line["event"] == "a folder was copied"] == [True, True, False]
    assert content(made[0]) == content(made[1]) == content(made[2]) == content(folder)


@pytest.mark.long
def test_a_full_disk_costs_the_standby_and_no_more(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    _, folder = ran(site)
    before = content(folder)
    was = shutil.copyfile

    def full(source: Path, target: Path) -> None:
        was(source, target)
        if "changelog" in str(source):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(shutil, "copyfile", full)
    with pytest.raises(OSError, match="No space left"):
        copying.refresh(folder, copying.standby(folder, 0))
    monkeypatch.undo()
    assert not [name for name in content(copying.standby(folder, 0)) if ".part" in name]
    assert content(folder) == before
    assert content(copying.clone(folder, f"file:{site.root}/copy")) == before


@pytest.mark.long
def test_a_lane_that_is_parted_goes_on_until_there_are_standbys_and_then_each_has_the_others(site: Site) -> None:
    """One container becomes two."""
    run = counting(site, partitions=4)
    for partition in range(4):
        feed(site, partition, 0, 20)
    coordinator = Coordinator(Store("sqlite://"), grace=1000.0, systems=Systems(run.settings, "j"))
    settings, lanes = {"assignment": {"standbys": 1}}, tuple(run.lanes)
    coordinator.start(
        StartRequest(graph=run.job.graph, model=run.plan.model, lanes=lanes, fingerprint={}, settings=settings)
    )

    def status() -> JobStatus:
        return coordinator.status("j")

    def scale() -> None:
        until(lambda: counts(site) == expected(dict.fromkeys(range(4), 20)))
        assert status().copies == ()
        coordinator.scale("j", ScaleRequest(containers=2))

    with captured() as said, served_by_two(run, coordinator, scale):
        for partition in range(4):
            feed(site, partition, 20, 5)
        until(lambda: status().state == "running" and counts(site) == expected(dict.fromkeys(range(4), 25)))
        until(lambda: [copy.behind for copy in status().copies] == [0, 0])
        seats = {lane.lane.id: lane.lane.seat for lane in status().lanes}
        holders = {one.container: one.seat for one in status().containers}
        assert {(seats[copy.lane], holders[copy.container]) for copy in status().copies} == {("0", "1"), ("1", "0")}
    assert [line["warm"] for line in said if line["event"] == "a folder was copied"] == [True, True]
    kept = {path.parent.name for path in Path(site.lane_folders.root).glob("j/*/standby-*")}
    assert kept == seats.keys()  # those of the lane that was parted are removed
