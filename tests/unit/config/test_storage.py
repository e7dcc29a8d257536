"""Which storage roots are on a local disk, and where; and that nothing else is removed for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.cli import reset, restore
from anabranch.config import Settings
from anabranch.config.storage import local_folder
from anabranch.errors import ConfigError


@pytest.mark.parametrize(
    ("uri", "folder"),
    [
        ("/data/lanes", "/data/lanes"),
        ("/data/a#b/lanes", "/data/a#b/lanes"),
        ("/data/a?b/50%25", "/data/a?b/50%25"),
        ("/data/a:b", "/data/a:b"),
        ("a:b/lanes", "a:b/lanes"),
        ("a b:/lanes", "a b:/lanes"),
        ("file:/data/lanes", "/data/lanes"),
        ("file:///data/a%20b", "/data/a%20b"),
        ("file:/data/50%25", "/data/50%25"),
        ("file:///data/a b", "/data/a b"),
        ("file:///data/a?b", "/data/a?b"),
        ("file://localhost/data/a#b", "/data/a#b"),
        ("hdfs:///lanes", None),
        ("hdfs:/lanes", None),
        ("foo:/lanes", None),
        ("s3a://bucket/lanes", None),
    ],
)
def test_where_a_root_is_on_a_local_disk(uri: str, folder: str | None) -> None:
    assert local_folder(uri) == (None if folder is None else Path(folder))


def test_a_backup_in_the_home_of_a_user_who_does_not_exist_is_refused() -> None:
    with pytest.raises(ConfigError, match="the home folder of ~nosuch-user isn't known"):
        restore.place("~nosuch-user/backup")


def test_a_reset_removes_its_own_folder_alone(tmp_path: Path) -> None:
    """Read as a URL, ``a#b/job`` is in the folder ``a``, which is another's."""
    for name in ("a", "a#b/job"):
        (tmp_path / name).mkdir(parents=True)
    reset.remove(Settings(), f"{tmp_path}/a#b/job")
    assert (tmp_path / "a").is_dir()
    assert not (tmp_path / "a#b" / "job").exists()
