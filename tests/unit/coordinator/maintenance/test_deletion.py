"""Folders of lanes are deleted wherever they are, and what can't be deleted is named."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from anabranch.coordinator.maintenance import deletion
from anabranch.errors import AnabranchError


def below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def made(file: Path) -> Path:
    file.parent.mkdir(parents=True)
    file.write_text("state")
    return file.parent


@pytest.mark.parametrize(
    ("levels", "linked", "left"),
    [
        (2, "job", {"other"}),
        (2, "job/lane", {"other"}),
        (2, "job/lane/1", {"other"}),
        (2, "job/lane/1/state", {"other", "other/state"}),
        (0, "job", {"other"}),
        (0, "job/lane", {"other", "other/state"}),
    ],
)
def test_a_folder_on_another_disk_is_emptied_and_its_link_removed(
    tmp_path: Path, levels: int, linked: str, left: set[str]
) -> None:
    made(tmp_path / "other" / "state")
    made(tmp_path / linked / "file")
    (tmp_path / linked / "file").unlink()
    (tmp_path / linked).rmdir()
    (tmp_path / linked).symlink_to(tmp_path / "other")
    deletion.delete(tmp_path / "job", "", "", levels=levels)
    assert below(tmp_path) == left


@pytest.mark.parametrize("kind", ["nothing", "a file", "a broken link", "folders"])
def test_whatever_is_there_is_deleted(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "job"
    if kind == "a file":
        folder.write_text("")
    elif kind == "a broken link":
        folder.symlink_to(tmp_path / "gone")
    elif kind == "folders":
        made(folder / "lane" / "1" / "offsets" / "0")
        (folder / "lane" / "1" / "link").symlink_to("gone")
    deletion.delete(folder, "", "", levels=2)
    assert below(tmp_path) == set()


def test_what_cannot_be_deleted_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = made(tmp_path / "job" / "lane" / "file") / "file"

    def refused(path: Path, missing_ok: bool = False) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted", str(path))

    monkeypatch.setattr(Path, "unlink", refused)
    with pytest.raises(AnabranchError) as caught:
        deletion.delete(tmp_path / "job", "the job is reset, but ", "anabranch reset j --yes")
    assert caught.value.what == f"the job is reset, but {file} can't be deleted: Operation not permitted"
    assert caught.value.cure.endswith("then run anabranch reset j --yes")
