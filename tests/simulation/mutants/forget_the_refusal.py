"""A container that was told to stop goes on."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.container.seat_lease import SeatLease

BREAKS = frozenset({"gone-is-gone", "progress"})


def apply(patch: pytest.MonkeyPatch) -> None:
    hear = SeatLease.hear

    def deaf(self: SeatLease, sent: Any, answer: Any) -> None:
        hear(self, sent, answer)
        self._refused = ""

    patch.setattr(SeatLease, "hear", deaf)
