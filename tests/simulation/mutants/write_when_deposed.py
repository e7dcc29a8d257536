"""A coordinator's writes to the store don't depend on its epoch."""

from __future__ import annotations

import pytest

from tests.simulation.store import MemoryStore

BREAKS = frozenset({"one-leader", "epochs-rise", "closed-stays"})


def apply(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MemoryStore, "check_leads", lambda self: None)
