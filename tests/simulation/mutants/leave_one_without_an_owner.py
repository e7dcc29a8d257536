"""A change that is undone leaves a lane out that could not start, if its share stays where it is."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from anabranch.model.lane import LaneState
from anabranch.planning.transition.shares import Share

FIRST = 700
BREAKS = frozenset({"progress"})


def apply(patch: pytest.MonkeyPatch) -> None:
    is_had_by = Share.is_had_by

    def kept(self: Any, lane: Any) -> bool:
        return is_had_by(self, msgspec.structs.replace(lane, state=LaneState.PLANNED))

    patch.setattr(Share, "is_had_by", kept)
