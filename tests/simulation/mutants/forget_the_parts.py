"""A lane that has keys of several lanes begins with all of them where the first of those ended."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from anabranch.planning.transition import opening

BREAKS = frozenset({"each-once"})


def apply(patch: pytest.MonkeyPatch) -> None:
    opened = opening.opened

    def whole(lane: Any, lanes: Any) -> Any:
        found = opened(lane, lanes)
        starting = [msgspec.structs.replace(position, parts={}) for position in found.starting]
        return msgspec.structs.replace(found, starting=tuple(starting))

    patch.setattr(opening, "opened", whole)
