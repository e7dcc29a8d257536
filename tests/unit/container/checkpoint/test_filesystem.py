"""What a power cut, or a faulty disk, leaves of files on a local disk."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from anabranch.container import error_text
from anabranch.container.checkpoint import filesystem
from anabranch.container.checkpoint.filesystem import File, Tree
from anabranch.container.error_text import Remedy
from anabranch.errors import AnabranchError


class OnDisk(Tree):
    """On a local disk, without Spark."""

    def __init__(self, root: Path) -> None:
        self.local = root
        self.path = SimpleNamespace(toString=lambda: str(root))


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was synced, renamed and removed, in order."""
    told: list[str] = []
    fsync, replace, unlink = os.fsync, os.replace, os.unlink

    def synced(descriptor: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        told.append(f"sync {path.suffix or path.name}")
        fsync(descriptor)

    def replaced(source: Path, target: Path) -> None:
        told.append(f"rename to {target.name}")
        replace(source, target)

    def unlinked(path: Path) -> None:
        unlink(path)
        told.append(f"remove {path.name}")

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    monkeypatch.setattr(os, "unlink", unlinked)
    return told


@pytest.mark.parametrize("durable", [True, False])
def test_a_durable_file_is_on_the_disk_and_so_is_its_name(tmp_path: Path, steps: list[str], durable: bool) -> None:
    tree = OnDisk(tmp_path)
    for text in ("first", "second"):
        steps.clear()
        tree.write("offsets/0", text, durable=durable)
        assert steps == (["sync .part", "rename to 0", "sync offsets"] if durable else ["rename to 0"])
        assert tree.read("offsets/0") == text


@pytest.mark.parametrize("durable", [True, False])
def test_a_file_that_is_removed_durably_does_not_come_back(tmp_path: Path, steps: list[str], durable: bool) -> None:
    tree = OnDisk(tmp_path)
    tree.write("offsets/0", "text")
    steps.clear()
    tree.remove("offsets/0", durable=durable)
    assert steps == ["remove 0", *["sync offsets"] * durable]
    tree.remove("offsets/0", durable=durable)


def test_what_is_copied_or_written_is_its_users_alone_whatever_the_umask(tmp_path: Path) -> None:
    """As in a backup into a folder that everybody may look into, and when it is restored."""
    place = tmp_path / "existing"
    place.mkdir()
    place.chmod(0o755)
    tmp_path.joinpath("lane/state").mkdir(parents=True)
    tmp_path.joinpath("lane/state/1.zip").write_text("state")
    lane, copy = OnDisk(tmp_path / "lane"), OnDisk(place)
    before = os.umask(0)
    try:
        copy.write("manifest.json", "text")
        copy.write("streams/notes", "text")
        lane.copy("state/1.zip", copy, lives=False)
        lane.copy("state/1.zip", OnDisk(place / "0" / "standby"), lives=True)
        OnDisk(place / "0" / "standby").move(OnDisk(place / "lanes" / "0" / "2"))
    finally:
        os.umask(before)
    files = {str(path.relative_to(place)) for path in place.rglob("*") if path.is_file()}
    assert files == {"manifest.json", "streams/notes", "state/1.zip", "lanes/0/2/state/1.zip"}
    modes = {path.stat().st_mode & 0o777 for path in place.rglob("*") if path.is_file()}
    assert modes == {0o600}
    assert {path.stat().st_mode & 0o777 for path in place.rglob("*") if path.is_dir()} == {0o700}
    assert place.joinpath("state/1.zip").read_text() == "state"


def test_a_file_that_is_gone_leaves_no_empty_copy(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        OnDisk(tmp_path).copy("segments/1", OnDisk(tmp_path / "copy"), lives=False)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


class Deleted(OnDisk):
    """Its old versions are deleted right after they were listed."""

    def files(self, name: str) -> dict[str, File]:
        found = super().files(name)
        for each in found:
            if each.endswith("1.zip"):
                self.remove(each)
        return found


def test_what_spark_deletes_while_it_is_copied_is_no_error(tmp_path: Path) -> None:
    source, target = Deleted(tmp_path / "lane"), OnDisk(tmp_path / "copy")
    for name in ("state/0/0/1.zip", "state/0/0/2.zip", "state/0/1/2.zip"):
        source.write(name, name)
    filesystem.update(source, target, ["state"], lives=False)
    assert sorted(OnDisk.files(target, "")) == ["state/0/0/2.zip", "state/0/1/2.zip"]


@pytest.mark.parametrize("lives", [True, False])
def test_what_is_copied_or_removed_is_on_the_disk_and_nothing_else_is_synced(
    tmp_path: Path, steps: list[str], lives: bool
) -> None:
    source, target = OnDisk(tmp_path / "lane"), OnDisk(tmp_path / "copy")
    for name in ("metadata", "state/0/1.zip", "state/1/1.zip"):
        source.write(name, name)
    names = ["metadata", "state"]
    steps.clear()
    assert filesystem.update(source, target, names, lives=lives) == 3
    synced = [step for step in steps if step.startswith("sync ")]
    assert sorted(synced[:3]) == ["sync .zip", "sync .zip", "sync metadata"]
    assert sorted(synced[3:]) == ["sync 0", "sync 1", "sync copy", "sync state"]
    steps.clear()
    assert filesystem.update(source, target, names, lives=lives) == 0
    assert steps == []
    source.remove("state/1/1.zip")
    source.write("state/0/2.zip", "new", durable=False)
    steps.clear()
    assert filesystem.update(source, target, names, lives=lives) == 1
    assert sorted(step for step in steps if step.startswith("sync ")) == [
        "sync .zip",
        "sync 0",
        "sync 1",
        "sync copy",
        "sync state",
    ]


def test_what_cannot_be_copied_is_an_error_if_it_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = OnDisk(tmp_path / "lane"), OnDisk(tmp_path / "copy")
    source.write("state/0/0/1.zip", "state")

    def full(*_: object, **__: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(source, "copy", full)
    with pytest.raises(OSError, match="No space left"):
        filesystem.update(source, target, ["state"], lives=False)


@pytest.mark.parametrize(
    ("code", "found"),
    [(errno.EIO, None), (errno.EACCES, None), (errno.ESTALE, None), (errno.ENOENT, ["commits/0"])],
)
def test_a_folder_that_cannot_be_listed_is_not_taken_for_an_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, found: list[str] | None
) -> None:
    tree = OnDisk(tmp_path)
    for name in ("commits/0", "state/0/0/1.zip"):
        tree.write(name, name)
    scandir = os.scandir

    def listed(path: str) -> object:
        if Path(path).name == "state":
            raise OSError(code, os.strerror(code), str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", listed)
    if found is None:
        with pytest.raises(OSError, match=r"/state'"):
            tree.all_files()
    else:
        assert tree.all_files() == found


def test_a_folder_that_is_not_there_has_no_files(tmp_path: Path) -> None:
    assert OnDisk(tmp_path / "none").all_files() == []


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        (errno.EMFILE, Remedy.ATTEMPT),
        (errno.ESTALE, Remedy.ATTEMPT),
        (errno.EIO, Remedy.ATTEMPT),
        (errno.EROFS, Remedy.ATTEMPT),
        (errno.EACCES, Remedy.ATTEMPT),
        (errno.ENOSPC, Remedy.WAIT),
        (errno.EDQUOT, Remedy.WAIT),
        (errno.EISDIR, Remedy.NONE),
        (errno.ENOTDIR, Remedy.NONE),
    ],
)
def test_what_cannot_be_written_is_tried_again_unless_something_else_is_in_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, remedy: Remedy
) -> None:
    def fails(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "replace", fails)
    with pytest.raises(AnabranchError, match=r"/metadata could not be written: ") as caught:
        OnDisk(tmp_path).write("metadata", "{}")
    assert error_text.failure(caught.value).remedy is remedy
