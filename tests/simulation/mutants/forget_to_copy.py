"""Who takes over a fenced lane goes on in its folder, and not in a copy."""

from __future__ import annotations

from typing import Any

import pytest

from tests.simulation.outputs import Storage

BREAKS = frozenset({"one-owner", "exactly-once"})


def apply(patch: pytest.MonkeyPatch) -> None:
    take = Storage.take

    def same(self: Storage, lane: str, had: int, epoch: int, *, copied: bool) -> Any:
        return take(self, lane, had, epoch, copied=False)

    patch.setattr(Storage, "take", same)
