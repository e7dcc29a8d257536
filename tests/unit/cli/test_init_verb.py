"""``anabranch init`` in folders with unusual names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from anabranch.cli.init import init


@pytest.mark.parametrize(("name", "title"), [(b"caf\xe9", "caf?"), ("café".encode(), "café")])
def test_a_folder_may_have_any_name(tmp_path: Path, name: bytes, title: str) -> None:
    folder = tmp_path / os.fsdecode(name)
    init(folder)
    assert (folder / "README.md").read_text(encoding="utf-8").startswith(f"# {title}\n")
    assert (folder / "pyproject.toml").exists()
    assert (folder / ".gitignore").exists()
