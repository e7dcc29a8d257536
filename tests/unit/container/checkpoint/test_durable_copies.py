"""A power cut loses nothing of a copy to which the store refers already, and whose original is deleted."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self, cast

import pytest

from anabranch.container.checkpoint import acceptance, compaction, copying, edits
from anabranch.container.checkpoint.acceptance import Acceptance
from anabranch.container.checkpoint.compaction import StoredState
from anabranch.container.checkpoint.filesystem import Tree
from anabranch.container.checkpoint.folder import METADATA
from anabranch.spark.internals import state_rewrite
from anabranch.spark.query import state
from anabranch.spark.query.state import StateSize
from tests.unit.coordinator.helpers import FIRST, lane


class OnDisk(Tree):
    """On a local disk, without Spark."""

    def __init__(self, root: Path) -> None:
        self.local = root
        folder = SimpleNamespace(getName=lambda: root.parent.name)
        self.path = SimpleNamespace(toString=lambda: str(root), getParent=lambda: folder)
        self.path_of = lambda *_: self.path
        self.fs = SimpleNamespace(globStatus=lambda _: [], makeQualified=lambda path: path)


class InPlace:
    """A folder without Spark."""

    pending = False

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.tree = OnDisk(Path(uri))

    def other(self, uri: str) -> Self:
        return type(self)(uri)

    def make(self) -> None:
        Path(self.uri).mkdir(exist_ok=True)

    def exists(self) -> bool:
        return Path(self.uri).exists()

    def note_id(self) -> None:
        self.tree.write(METADATA, "{}")

    def planned(self) -> int:
        return 0

    def committed(self) -> int:
        return 0

    def remove(self) -> None:
        shutil.rmtree(self.uri)

    def ignore(self, *_: object) -> None:
        pass

    lock = check_owner = take_back = clear_broken = change_starting = ignore


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The paths that were synced."""
    found: set[str] = set()
    fsync = os.fsync

    def noting(descriptor: int) -> None:
        found.add(os.readlink(f"/proc/self/fd/{descriptor}"))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noting)
    return found


@pytest.fixture
def original(tmp_path: Path) -> InPlace:
    made = InPlace(str(tmp_path / "lanes" / "j" / "0-a" / "1"))
    for name in ("commits/0", "offsets/0", METADATA, "state/0/0/1.zip", "streams.json"):
        made.tree.write(name, name)
    return made


def files_and_folders(below: Path) -> set[str]:
    return {str(below), *(str(path) for path in below.rglob("*") if not path.name.endswith(".part"))}


def durable_at(synced: set[str], copy: Path) -> None:
    lanes = copy.parent, copy.parent.parent
    there = files_and_folders(copy) | {str(path) for path in lanes}
    there.discard(f"{copy}/{METADATA}")  # it is synced under another name
    assert there - synced == set()


def test_a_clone_is_on_the_disk_with_its_lanes_folder(original: InPlace, synced: set[str], tmp_path: Path) -> None:
    copy = tmp_path / "lanes" / "j" / "0-b" / "2"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(copying, "standbys", lambda _: [])
        copying.clone(cast(Any, original), str(copy))
    assert (copy / "state/0/0/1.zip").exists()
    durable_at(synced, copy)


def test_a_file_that_a_standby_has_in_an_older_form_is_copied_even_if_a_move_makes_it_younger(
    original: InPlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In an object store, a rename is a copy, so all files get the time of the rename."""
    standby = InPlace(str(tmp_path / "lanes" / "j" / "0-a" / "standby-1-0"))
    for at, (name, form) in enumerate([("offsets/0", "plan-old"), ("state/0/0/1.zip", "state/0/0/1.zip")]):
        standby.tree.write(name, form)
        os.utime(Path(standby.uri, name), (1000 + at, 1000 + at))
    original.tree.write("offsets/0", "plan-new")  # with fewer records, and of the same size
    os.utime(Path(original.uri, "state/0/0/1.zip"), (900, 900))
    move, copied, copy_file = Tree.move, list[str](), Tree.copy

    def as_copy(tree: Tree, target: Tree) -> bool:
        moved = move(tree, target)
        assert target.local is not None
        for path in target.local.rglob("*"):
            os.utime(path, (4e9, 4e9))
        return moved

    def noting(tree: Tree, name: str, target: Tree, *, lives: bool) -> None:
        copied.append(name)
        copy_file(tree, name, target, lives=lives)

    monkeypatch.setattr(OnDisk, "move", as_copy)
    monkeypatch.setattr(OnDisk, "copy", noting)
    monkeypatch.setattr(copying, "standbys", lambda _: [standby])
    copy = tmp_path / "lanes" / "j" / "0-b" / "2"
    copying.clone(cast(Any, original), str(copy))
    assert (copy / "offsets/0").read_text() == "plan-new"
    assert sorted(copied) == ["commits/0", METADATA, "offsets/0", "streams.json"]


def test_compacted_state_is_on_the_disk(
    original: InPlace, synced: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rewrite(spark: object, source: str, target: str, *_: object) -> None:
        place = Path(target, "state", "0", "0")
        place.mkdir(parents=True)
        place.joinpath("1.zip").write_text("own rows")

    monkeypatch.setattr(state_rewrite, "rewrite", rewrite)
    monkeypatch.setattr(state, "size_of", lambda *_: StateSize(1, 8, 0, 0))
    copy = tmp_path / "lanes" / "j" / "0-a" / "2"
    before = StoredState(lane(FIRST), cast(Any, original), 0, 1, StateSize(2, 16, 1, 8))
    compaction.rewrite(cast(Any, None), before, str(copy))
    assert (copy / "state/0/0/1.zip").read_text() == "own rows"
    durable_at(synced, copy)


def test_a_folder_that_goes_on_with_another_stream_is_on_the_disk(
    original: InPlace, synced: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(edits, "adopt", lambda *_, **__: None)
    monkeypatch.setattr(copying, "standbys", lambda _: [])
    copy = tmp_path / "lanes" / "j" / "0-a" / "2"
    found = Acceptance(lane(FIRST), cast(Any, original), [], "other", "id", True, {}, {}, {})
    acceptance.rewrite(found, str(copy), -1)
    durable_at(synced, copy)
