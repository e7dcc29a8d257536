"""Surgery on a stopped lane's checkpoint: batches finished and planned, folders parted; nothing lost or twice."""

from __future__ import annotations

import fcntl
import gc
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from anabranch import Job, own_files
from anabranch.container.checkpoint import claims, copying, edits
from anabranch.container.checkpoint.filesystem import Tree
from anabranch.container.checkpoint.folder import Folder
from anabranch.container.checkpoint.offset_log import Entry
from anabranch.errors import ConflictError, DamagedError, StateError
from anabranch.model.lane import Lane
from anabranch.spark.internals import checkpoint_files
from anabranch.spark.internals.checkpoint_files import FarFiles
from anabranch.spark.internals.hadoop_files import Hadoop
from anabranch.spark.query.publishing import Publishing
from anabranch.spark.query.query import LaneQuery
from tests.integration.counting import counting, counts, expected, feed
from tests.integration.harness import Deployed, Site
from tests.support import spark_java


class Interrupted(Exception):
    """The test stops a batch here."""


def copying_job(site: Site) -> Deployed:
    site.log.create("in", 2)
    job = Job("j")
    job.read("in", key="k string", schema="n int").write("out")
    return site.deployed(job)


def once(query: LaneQuery) -> None:
    started = query.start(once=True)
    started.awaitTermination(60)
    assert not started.isActive


def leave_pending(query: LaneQuery, monkeypatch: pytest.MonkeyPatch, *, published: bool = False) -> None:
    """Plan a batch and die in it, before its outputs are published or just after."""
    finish = Publishing.finish

    def interrupted(self: Publishing, *batch: Any) -> None:
        if published:
            finish(self, *batch)
        raise Interrupted

    with monkeypatch.context() as patch:
        patch.setattr(Publishing, "finish", interrupted)
        started = query.start(once=True)
        with pytest.raises(Exception, match="Interrupted"):
            started.awaitTermination(60)


@pytest.mark.parametrize("published", [pytest.param(False, marks=pytest.mark.long), True])
def test_a_pending_batch_is_finished_exactly_once(site: Site, monkeypatch: pytest.MonkeyPatch, published: bool) -> None:
    run = counting(site)
    (lane,) = run.lanes
    folder = Folder(site.spark, f"file://{site.root}/lane")
    query = run.query(lane, folder.uri)
    feed(site, 0, 0, 9)
    once(query)
    feed(site, 0, 9, 6)
    leave_pending(query, monkeypatch, published=published)
    assert (folder.planned(), folder.committed(), folder.pending) == (1, 0, True)
    assert folder.positions() == {"in": {0: 9, 1: 0}}
    feed(site, 1, 0, 5)
    once(query)
    assert (folder.planned(), folder.committed(), folder.pending) == (1, 1, False)
    assert folder.positions() == {"in": {0: 15, 1: 0}}
    assert counts(site) == expected({0: 15})
    assert len(site.all_records("out")) == 6
    once(query)
    assert counts(site) == expected({0: 15, 1: 5})


def test_a_planned_batch_takes_in_exactly_up_to_its_ends(site: Site) -> None:
    run = copying_job(site)
    (lane,) = run.lanes
    folder = Folder(site.spark, f"file://{site.root}/lane")
    query = run.query(lane, folder.uri)
    feed(site, 0, 0, 4)
    once(query)
    feed(site, 0, 4, 20)
    feed(site, 1, 0, 20)
    assert folder.plan(folder.entry(0).with_positions(0, {0: 7, 1: 13})) == 1
    with pytest.raises(StateError, match="has a pending batch 1"):
        folder.plan(folder.entry(0))
    once(query)
    assert folder.positions() == {"in": {0: 7, 1: 13}}
    assert Counter(v["k"][:2] for v in site.values("out")) == {"p0": 7, "p1": 13}
    assert folder.plan(folder.entry(1)) == 2
    once(query)
    assert folder.positions() == {"in": {0: 7, 1: 13}}
    assert len(site.values("out")) == 20


def test_a_folder_that_was_not_run_has_nothing(site: Site) -> None:
    folder = Folder(site.spark, f"file://{site.root}/lane")
    assert not folder.exists()
    assert (folder.planned(), folder.committed(), folder.pending, folder.positions()) == (-1, -1, False, {})
    folder.make()
    assert folder.exists()
    assert folder.plan(Entry({}, ())) == 0
    assert folder.pending
    folder.remove()
    assert not folder.exists()


@pytest.mark.long
def test_halves_of_a_stateful_lane_go_on_exactly_with_a_batch_in_flight(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = counting(site, partitions=4)
    (lane,) = run.lanes
    folder = Folder(site.spark, f"file://{site.root}/lane")
    query = run.query(lane, folder.uri)
    for partition in range(4):
        feed(site, partition, 0, 10)
    once(query)
    for partition in range(4):
        feed(site, partition, 10, 5)
    leave_pending(query, monkeypatch)
    halves: list[tuple[Lane, Folder]] = []
    for number, mine in enumerate([(0, 2), (1, 3)]):
        half = msgspec.structs.replace(
            lane,
            id=f"half-{number}",
            ssps=tuple(ssp for ssp in lane.ssps if ssp.partition in mine),
            tasks=tuple(f"Partition_{p}" for p in mine),
        )
        copy = copying.clone(folder, f"file://{site.root}/half-{number}")
        edits.keep(copy, {"in": mine})
        assert (copy.planned(), copy.committed(), copy.pending) == (1, 0, True)
        assert copy.entry(1).positions(0) == dict.fromkeys(mine, 15)
        halves.append((half, copy))
    ids = {json.loads(Path(site.root, name, "metadata").read_text())["id"] for name in ("lane", "half-0", "half-1")}
    assert len(ids) == 3
    for partition in range(4):
        feed(site, partition, 15, 2)
    for half, copy in halves:
        once(run.query(half, copy.uri, epoch=2))
        once(run.query(half, copy.uri, epoch=2))
        assert copy.positions() == {"in": dict.fromkeys((s.partition for s in half.ssps), 17)}
    assert counts(site) == expected(dict.fromkeys(range(4), 17))
    # 3 keys a partition, in three batches: each update was written once.
    assert len(site.all_records("out")) == 4 * (3 + 3 + 2)


@pytest.mark.parametrize("local", [True, False])
def test_a_copy_has_all_that_a_lane_goes_on_from(site: Site, monkeypatch: pytest.MonkeyPatch, local: bool) -> None:
    folder = Folder(site.spark, f"file://{site.root}/original")
    folder.make()
    folder.note_streams({"in": "id"})
    for batch in range(3):
        folder.tree.write(f"offsets/{batch}", f"offset {batch}")
        folder.tree.write(f"commits/{batch}", f"commit {batch}")
        folder.tree.write(f"state/0/1/{batch}.changelog", f"state {batch}")
    folder.tree.write("metadata", '{"id": "former"}')
    if not local:
        monkeypatch.setattr(Tree, "local", None)
        monkeypatch.setattr(claims, "take", lambda *_: None)  # it is a disk: no claims can be made there
    copy = copying.clone(folder, f"file://{site.root}/copy")
    assert _texts(site.root / "copy") == {**_texts(site.root / "original"), "metadata": copy.tree.read("metadata")}
    assert json.loads(copy.tree.read("metadata"))["id"] != "former"
    assert (copy.committed(), copy.tree.read("state/0/1/2.changelog")) == (2, "state 2")


@pytest.mark.parametrize("local", [True, False])
def test_a_file_is_written_whole_in_place_of_a_former_one(
    site: Site, monkeypatch: pytest.MonkeyPatch, local: bool
) -> None:
    if not local:
        monkeypatch.setattr(Tree, "local", None)
    tree = Tree(site.spark, f"file://{site.root}/lane")
    assert (tree.numbers("offsets"), tree.has("offsets/0")) == ([], False)
    stream = tree.fs.create(tree.at("offsets/10"), True)  # as Spark does, with the checksum of what it holds
    stream.write(bytearray(b"Spark's"))
    stream.close()
    tree.write("offsets/10", "ours, in place of it: \u00e9")
    tree.write("offsets/9", "new", new=True)
    (site.root / "lane/offsets/.11.tmp").write_text("")
    assert tree.numbers("offsets") == [9, 10]
    assert tree.read("offsets/10") == "ours, in place of it: \u00e9"
    monkeypatch.setattr(Tree, "local", None)
    assert tree.read("offsets/10") == "ours, in place of it: \u00e9", "Hadoop still goes by Spark's checksum"
    assert not [*(site.root / "lane").rglob("*.part")]


def test_java_has_all_that_is_called_for_files_that_are_not_on_a_local_disk(site: Site, tmp_path: Path) -> None:
    """Here with Hadoop's file system for local disks; the soak's scenarios have HDFS and S3."""
    hadoop = Hadoop(site.spark)
    folder = hadoop.path(f"file://{tmp_path}/far")
    far = FarFiles(site.spark, folder.getFileSystem(hadoop.conf))
    first, second = hadoop.path(folder, "1"), hadoop.path(folder, "2")
    assert far.create(first, "created")
    assert not far.create(first, "created again")
    far.write(first, "written")
    assert (far.read(first), far.just_written(first)) == ("written", None)
    far.rename(first, second)
    assert [each.name for each in far.files(folder, below=True)] == ["2"]
    far.check_lease(second)
    far.delete(second)
    assert far.files(folder, below=False) == []
    checkpoint_files.lease(site.spark, str(folder.toString()), 0)
    for write in (far.check_lease, far.delete, lambda path: far.write(path, ""), lambda path: far.rename(first, path)):
        with pytest.raises(Exception, match="ANABRANCH_LEASE_OVER"):
            write(second)


def test_standbys_and_schemas_are_found_whatever_characters_the_root_has(site: Site, tmp_path: Path) -> None:
    """Hadoop's patterns give a meaning to some of them, and refuse colons."""
    root = tmp_path / "work [v2] {a *? 10:30"
    lane, schema = root / "lanes" / "j" / "0-abc", "state/0/_metadata/schema"
    for name in ("1/commits/0", f"1/{schema}", "standby-1-0/commits/0", "standby-1-1/commits/1"):
        own_files.make_folder((lane / name).parent)
        (lane / name).touch()
    folder = Folder(site.spark, str(lane / "1"))
    found = [each.tree.local for each in copying.standbys(folder)]
    assert found == [lane / "standby-1-1", lane / "standby-1-0"]
    assert folder.tree.matching("state/*/_metadata/*") == [schema]


def test_a_file_that_cannot_be_written_is_named(site: Site) -> None:
    tree = Tree(site.spark, f"file://{site.root}/lane")
    (site.root / "lane/offsets/0").mkdir(parents=True)
    with pytest.raises(StateError, match=r"/lane/offsets/0 could not be written: .*\n.*storage root can be written"):
        tree.write("offsets/0", "text")
    assert not [*(site.root / "lane").rglob("*.part")]


def _texts(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".crc")
    return {str(path.relative_to(folder)): path.read_text() for path in files}


def test_a_copy_that_broke_off_can_be_made_again(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Folder(site.spark, f"file://{site.root}/original")
    folder.make()
    folder.note_streams({"in": "id"})
    with monkeypatch.context() as patched:
        patched.setattr(Tree, "write", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            copying.clone(folder, f"file://{site.root}/copy")
    assert copying.clone(folder, f"file://{site.root}/copy").stream_ids() == {"in": "id"}


def test_an_attempt_that_fails_after_its_folder_was_copied_can_be_made_again(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = counting(site)
    feed(site, 0, 0, 5)
    run.ran()
    lane, epoch = msgspec.structs.replace(run.lanes[0], abandoned=True), run.epoch

    def away(*_: Any, **__: Any) -> None:
        raise OSError("the disk is away")

    for step in ("clear_leftovers", "note_starting"):
        run.lanes, run.epoch = [lane], epoch
        with monkeypatch.context() as patched:
            patched.setattr(Folder, step, away)
            assert "the disk is away" in run.failure()
    feed(site, 0, 5, 5)
    run.lanes, run.epoch = [lane], epoch
    run.ran()
    assert run.lanes[0].folder_epoch == epoch
    assert counts(site) == expected({0: 10})
    with pytest.raises(ConflictError, match="exists already"):
        copying.clone(run.folder(lane), run.folder(run.lanes[0]).uri, again=True)


def test_a_copy_that_another_process_holds_is_not_replaced(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Folder(site.spark, f"file://{site.root}/lane")
    folder.make()
    copy = copying.clone(folder, f"file://{site.root}/copy")

    def held(*_: Any) -> None:
        raise ConflictError("another process runs on it", "")

    monkeypatch.setattr(Folder, "lock", held)
    with pytest.raises(ConflictError, match="another process"):
        copying.clone(folder, f"file://{site.root}/copy", again=True)
    assert copy.exists()


def test_a_folder_is_not_cloned_over_another(site: Site) -> None:
    folder = Folder(site.spark, f"file://{site.root}/lane")
    folder.make()
    copying.clone(folder, f"file://{site.root}/copy")
    with pytest.raises(ConflictError, match=r"/copy exists already"):
        copying.clone(folder, f"file://{site.root}/copy")


def test_a_damaged_entry_names_its_file(site: Site) -> None:
    folder = Folder(site.spark, f"file://{site.root}/lane")
    folder.make()
    folder.plan(Entry({"batchWatermarkMs": 0}, ()))
    (site.root / "lane/offsets/.0.crc").unlink(missing_ok=True)
    (site.root / "lane/offsets/0").write_text("v1\n{")
    with pytest.raises(DamagedError, match=r"/lane/offsets/0 is damaged"):
        folder.entry(0)


@pytest.mark.long
def test_a_lock_is_kept_while_the_process_lives(site: Site) -> None:
    folder = Folder(site.spark, f"file://{site.root}/lane")
    folder.make()
    folder.lock()
    del folder
    code = (
        "import fcntl, sys\n"
        "with open(sys.argv[1], 'r+') as file:\n"
        "    try: fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
        "    except OSError: print('held')\n"
    )
    for _ in range(5):  # the JVM closes what it finds unreachable a little after it looked
        gc.collect()
        spark_java.collect_garbage(site.spark)
        site.spark.range(10).count()
        other = subprocess.run([sys.executable, "-c", code, f"{site.root}/lane.lock"], capture_output=True, text=True)
        assert other.stdout == "held\n", other.stderr


def test_a_lock_that_another_process_holds_is_refused(site: Site) -> None:
    folder = Folder(site.spark, f"file://{site.root}/lane")
    folder.make()
    with Path(site.root, "lane.lock").open("w") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        with pytest.raises(ConflictError, match=f"another process runs on {site.root}/lane"):
            folder.lock()
    folder.lock()
    folder.lock()
