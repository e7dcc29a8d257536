"""A store in memory, and a clock that is moved by hand."""

from __future__ import annotations

import pytest

from anabranch.coordinator.store.store import Store
from tests.unit.coordinator.helpers import Clock


@pytest.fixture
def store() -> Store:
    return Store("sqlite://")


@pytest.fixture
def clock() -> Clock:
    return Clock()
