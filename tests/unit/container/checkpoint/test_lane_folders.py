"""What the outputs of a lane are told by a process that takes the lane's folder, or withdraws the lane's right to
write."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from anabranch.config import Settings
from anabranch.container.checkpoint.lane_folders import LaneFolders
from anabranch.errors import StateError
from anabranch.model.lane import Lane
from anabranch.systems.systems import Systems
from tests.unit.coordinator.helpers import lane


class Told(Systems):
    """Outputs that remember whether the lane may be new."""

    def __init__(self) -> None:
        super().__init__(Settings())
        self.new: list[bool | None] = []

    def recover(self, lane: Lane, epoch: int, *, new: bool | None) -> None:
        self.new.append(new)
        raise StateError("no further", "")

    def withdraw(self, lane: Lane, epoch: int, *, new: bool | None) -> int:
        self.new.append(new)
        return -1


@pytest.mark.parametrize(
    ("ran", "committed", "first_batch", "new"),
    [
        (False, -1, 0, None),
        (True, -1, 0, False),
        (False, 0, 0, False),
        (False, 4, 5, None),
        (True, 4, 5, False),
        (False, 5, 5, False),
    ],
)
def test_markers_of_a_lane_that_has_run_are_never_made_anew(
    monkeypatch: pytest.MonkeyPatch, ran: bool, committed: int, first_batch: int, new: bool | None
) -> None:
    """Part of the first batch may be visible, although it isn't committed."""
    folder = SimpleNamespace(exists=lambda: True, lock=lambda _: None, committed=lambda: committed)
    monkeypatch.setattr(LaneFolders, "at", lambda *_: folder)
    told = Told()
    lane_folders = LaneFolders(cast(Any, None), "/root", Path(), told)
    its = lane("0-a", ran=ran, first_batch=first_batch, folder_epoch=1)
    with pytest.raises(StateError, match="no further"):
        lane_folders.folder(its, 2, lambda: False)
    assert lane_folders.withdrawn(its, 2, committed=committed) == -1
    assert told.new == [new, new]
