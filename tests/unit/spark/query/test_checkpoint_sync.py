"""Which files of a checkpoint are synced before a batch is published."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from anabranch.spark.query.checkpoint_sync import CheckpointSync


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of what was synced, in order."""
    names: list[str] = []
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        names.append(os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}")))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    return names


def put(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)


def test_new_files_are_synced_once_and_their_folders_after_them(tmp_path: Path, synced: list[str]) -> None:
    put(tmp_path, "offsets/0", "offsets/.0.crc", "state/0/1/1.changelog", "metadata", "offsets/.1.abc.tmp")
    sync = CheckpointSync(f"file://{tmp_path}")
    assert sync.sync() == 3
    assert sorted(synced[:3]) == [".0.crc", "0", "1.changelog"]
    assert set(synced[3:]) == {"offsets", "1", tmp_path.name}

    synced.clear()
    put(tmp_path, "commits/0", "offsets/1")
    assert sync.sync() == 2
    assert set(synced) == {"0", "1", "commits", "offsets"}
    synced.clear()
    (tmp_path / "offsets" / "0").unlink()
    assert sync.sync() == 0
    assert synced == []


def test_what_a_former_process_has_written_is_synced_too(tmp_path: Path, synced: list[str]) -> None:
    """https://github.com/elastic/elasticsearch/issues/39498"""
    put(tmp_path, "offsets/0", "commits/0", "offsets/1")
    assert CheckpointSync(str(tmp_path)).sync() == 3
    synced.clear()
    assert CheckpointSync(str(tmp_path)).sync() == 3


@pytest.mark.parametrize("hours", [-24, 24])
def test_what_is_new_is_synced_whatever_the_machine_s_clock_says_now(
    tmp_path: Path, synced: list[str], hours: int
) -> None:
    put(tmp_path, "offsets/0", "commits/0")
    at = (tmp_path / "offsets" / "0").stat().st_mtime + hours * 3600
    for name in ("offsets/0", "commits/0"):
        os.utime(tmp_path / name, (at, at))
    assert CheckpointSync(str(tmp_path)).sync() == 2


def test_what_is_new_is_synced_after_the_clock_was_set_back(tmp_path: Path, synced: list[str]) -> None:
    put(tmp_path, "offsets/0", "commits/0")
    at = (tmp_path / "offsets" / "0").stat().st_mtime + 3600
    for name in ("offsets/0", "commits/0"):
        os.utime(tmp_path / name, (at, at))
    put(tmp_path, "offsets/1", "state/0/1/2.changelog")
    assert CheckpointSync(str(tmp_path)).sync() == 4
    assert {"1", "2.changelog"} <= set(synced)


def test_what_is_old_is_on_the_disk_already(tmp_path: Path, synced: list[str]) -> None:
    put(tmp_path, "offsets/0", "offsets/1")
    os.utime(tmp_path / "offsets" / "0", (1, 1))
    assert CheckpointSync(str(tmp_path)).sync() == 1
    assert synced[0] == "1"


def test_the_last_files_of_the_logs_are_synced_however_old_they_seem(tmp_path: Path, synced: list[str]) -> None:
    old = ("offsets/9", "offsets/10", "offsets/.10.crc", "commits/8", "commits/9", "state/0/1/10.changelog")
    put(tmp_path, *old, "state/0/1/11.changelog")
    for name in old:
        os.utime(tmp_path / name, (1, 1))
    assert CheckpointSync(str(tmp_path)).sync() == 4
    assert set(synced[:4]) == {"10", ".10.crc", "9", "11.changelog"}


def test_a_folder_elsewhere_is_left_to_its_storage(synced: list[str]) -> None:
    assert CheckpointSync("hdfs://there:9000/lanes/j/l/1").sync() == 0
    assert synced == []
