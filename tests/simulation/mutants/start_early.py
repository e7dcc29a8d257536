"""A lane may start before its predecessors are closed."""

from __future__ import annotations

import msgspec
import pytest

from anabranch.coordinator.serving import Serving

BREAKS = frozenset({"predecessors-first"})


def apply(patch: pytest.MonkeyPatch) -> None:
    wanted = Serving.wanted

    def early(self: Serving) -> object:
        known = self.known
        self.known = {lane.id: msgspec.structs.replace(lane, predecessors=()) for lane in known.values()}
        try:
            return wanted(self)
        finally:
            self.known = known

    patch.setattr(Serving, "wanted", early)
