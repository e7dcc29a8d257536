"""What tests of several verbs share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Settings with the embedded log in the folder ``streams``."""
    path = tmp_path / "anabranch.toml"
    path.write_text(f'[systems.embedded]\nroot = "{tmp_path}/streams"\n')
    return path
