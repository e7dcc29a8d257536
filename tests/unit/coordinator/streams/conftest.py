"""The embedded log of a job, in a folder of the test."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.config import EmbeddedSettings, Settings, SystemsSettings
from anabranch.systems.systems import Systems


@pytest.fixture
def systems(tmp_path: Path) -> Systems:
    return Systems(Settings(systems=SystemsSettings(embedded=EmbeddedSettings(root=tmp_path))), "delays")
