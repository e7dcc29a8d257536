"""A lane that follows others begins where the stream does, not where they ended."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from anabranch.planning.transition import opening

BREAKS = frozenset({"each-once", "state-goes-along"})


def apply(patch: pytest.MonkeyPatch) -> None:
    opened = opening.opened

    def afresh(lane: Any, lanes: Any) -> Any:
        found = opened(lane, lanes)
        starting = [msgspec.structs.replace(position, offset=0, parts={}) for position in found.starting]
        return msgspec.structs.replace(found, starting=tuple(starting))

    patch.setattr(opening, "opened", afresh)
