"""A stateful lane that follows another one begins with an empty folder."""

from __future__ import annotations

from typing import Any

import pytest

from tests.simulation.outputs import Folder, Storage

BREAKS = frozenset({"state-goes-along", "exactly-once", "each-once"})


def apply(patch: pytest.MonkeyPatch) -> None:
    def empty(self: Storage, lane: Any, epoch: int) -> Folder:
        return Folder(epoch, epoch, self.share(lane).begins)

    patch.setattr(Storage, "_split", empty)
