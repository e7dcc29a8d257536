"""Whether a folder can be written is found out without others noticing."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from anabranch.errors import AnabranchError
from anabranch.systems import folders

KIND = "storage root"


@pytest.mark.parametrize("check", [folders.writable, folders.can_be_written])
@pytest.mark.parametrize("name", [".", "new/lanes"])
def test_several_may_check_a_folder_at_the_same_time(
    tmp_path: Path, name: str, check: Callable[[Path, str], None]
) -> None:
    folder = tmp_path / name
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: check(folder, KIND), range(800)))
    assert folder.exists() == (check is folders.writable or name == ".")
    assert [each for each in tmp_path.rglob("*") if each.is_file()] == []


def test_a_check_does_not_take_a_new_folder_from_others(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "lanes"

    def check(number: int) -> None:
        (folders.can_be_written if number % 2 else folders.writable)(folder, KIND)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(check, range(800)))
    assert folder.is_dir()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "dangling").symlink_to("nowhere")
    for check in (folders.writable, folders.can_be_written):
        with pytest.raises(AnabranchError, match=f"^the storage root {tmp_path}/file/x can't be written: Not a dir"):
            check(tmp_path / "file" / "x", KIND)
        with pytest.raises(AnabranchError, match=f"^the storage root {tmp_path}/dangling can't be written: "):
            check(tmp_path / "dangling", KIND)
