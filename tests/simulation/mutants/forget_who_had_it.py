"""A lane begins to read a broadcast for all of its tasks where the first of them was."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from anabranch.planning.ownership import broadcasts

BREAKS = frozenset({"each-once"})


def apply(patch: pytest.MonkeyPatch) -> None:
    begin = broadcasts.begin

    def alike(*given: Any) -> Any:
        return msgspec.structs.replace(begin(*given), parts={})

    patch.setattr(broadcasts, "begin", alike)
