"""Who takes over a fenced lane goes on in its folder, and not in a copy."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.simulation.outputs import Storage

BREAKS = frozenset({"one-owner", "exactly-once"})


def apply(patch: pytest.MonkeyPatch) -> None:
    take = Storage.take

    def same(self: Storage, lane: Any, epoch: int) -> Any:
        return take(self, msgspec.structs.replace(lane, abandoned=False), epoch)

    patch.setattr(Storage, "take", same)
