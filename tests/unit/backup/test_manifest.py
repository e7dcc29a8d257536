"""A folder that two processes use for a backup at the same time."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.backup import manifest
from anabranch.backup.manifest import Attempts, LaneFolder, Manifest
from anabranch.errors import ConflictError
from tests.unit.backup.trees import OnDisk

LANE = LaneFolder(lane="0-a", epoch=1, planned=3, is_open=True)
ENTRY = "lanes/0-a/1/offsets/3"


@pytest.fixture
def tree(tmp_path: Path) -> OnDisk:
    return OnDisk(tmp_path / "backup")


def begun(tree: OnDisk) -> str:
    """Begin a backup and copy its files. Returns the backup's id."""
    id = Attempts(tree).begin("delays", 5.0)
    tree.local.joinpath(ENTRY).parent.mkdir(parents=True)
    tree.write(ENTRY, "v1")
    tree.write(manifest.STORE, "rows")
    return id


def listed(tree: OnDisk, id: str) -> Manifest:
    files = manifest.of_files(tree)
    return Manifest(
        id=id, job="delays", made_at=5.0, anabranch="0", lanes=(LANE,), streams=(), elsewhere=(), files=files
    )


def test_a_backup_has_the_id_with_which_it_began_and_leaves_no_other_files(tree: OnDisk) -> None:
    with manifest.alone(tree):
        made = listed(tree, begun(tree))
        manifest.finish(tree, made)
    assert manifest.read(tree) == made
    assert made.files.keys() == {ENTRY, manifest.STORE}
    assert {each.name for each in tree.local.iterdir()} == {"lanes", manifest.STORE, "backup.json"}


def test_a_second_process_is_refused_and_leaves_the_first_alone(tree: OnDisk) -> None:
    with manifest.alone(tree):
        id = begun(tree)
        with pytest.raises(ConflictError, match="another process is making a backup"), manifest.alone(tree):
            pytest.fail("it began")
        manifest.finish(tree, listed(tree, id))
    manifest.verify(tree, manifest.read(tree))
    with pytest.raises(ConflictError, match="holds a backup already"), manifest.alone(tree):
        pytest.fail("it began")


def test_a_process_that_was_killed_at_any_step_is_followed_by_another(tree: OnDisk) -> None:
    with manifest.alone(tree):
        pass
    with manifest.alone(tree):
        begun(tree)
    with manifest.alone(tree):
        manifest.finish(tree, listed(tree, begun(tree)))


def test_a_folder_with_other_files_is_not_changed(tree: OnDisk) -> None:
    tree.local.mkdir()
    (tree.local / "letter").touch()
    with pytest.raises(ConflictError, match="isn't empty"), manifest.alone(tree):
        pytest.fail("it began")
    assert [each.name for each in tree.local.iterdir()] == ["letter"]


def test_a_process_whose_files_another_one_has_removed_does_not_end_well(tree: OnDisk) -> None:
    """Storage without locks."""
    tree.local.mkdir()
    first = begun(tree)
    manifest.check_begun(tree, first)
    second = Attempts(tree).begin("delays", 6.0)
    with pytest.raises(ConflictError, match="another process has changed the backup"):
        manifest.check_begun(tree, first)
    with pytest.raises(ConflictError, match="another process has changed the backup"):
        manifest.finish(tree, listed(tree, first))
    with pytest.raises(ConflictError, match="another process has changed the backup"):
        manifest.check_lanes(tree, [LANE], manifest.of_files(tree))
    manifest.finish(tree, listed(tree, second))
    with pytest.raises(ConflictError, match="another process has changed the backup"):
        manifest.finish(tree, listed(tree, first))
    assert manifest.read(tree).id == second


def test_a_process_that_tries_again_does_not_remove_what_another_one_has_copied(tree: OnDisk) -> None:
    """Storage without locks."""
    tree.local.mkdir()
    attempts = Attempts(tree)
    attempts.begin("delays", 5.0)
    attempts.begin("delays", 6.0)
    other = begun(tree)
    with pytest.raises(ConflictError, match="another process has changed the backup"):
        attempts.begin("delays", 7.0)
    manifest.finish(tree, listed(tree, other))
    with pytest.raises(ConflictError, match="holds a backup already"):
        attempts.begin("delays", 8.0)
    manifest.verify(tree, manifest.read(tree))


def test_lanes_whose_last_batch_is_in_the_backup_are_whole(tree: OnDisk) -> None:
    tree.local.mkdir()
    begun(tree)
    new = LaneFolder(lane="0-b", epoch=1, planned=-1, is_open=True)
    manifest.check_lanes(tree, [LANE, new], manifest.of_files(tree))
