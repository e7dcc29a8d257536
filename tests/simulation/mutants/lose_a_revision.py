"""A container takes an answer with a lower revision for an old one: what a new leader wants is lost."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.container.seat_lease import SeatLease

BREAKS = frozenset({"progress"})


def apply(patch: pytest.MonkeyPatch) -> None:
    hear = SeatLease.hear

    def choosy(self: SeatLease, sent: Any, answer: Any) -> None:
        had = self._answer
        hear(self, sent, answer)
        if had is not None and answer.alive and answer.revision < had.revision:
            self._answer = had

    patch.setattr(SeatLease, "hear", choosy)
