"""A coordinator claims the lead without waiting for the lease of the one that leads: there are two."""

from __future__ import annotations

import pytest

from anabranch.coordinator.leadership.election import Election

BREAKS = frozenset({"one-leader"})


def apply(patch: pytest.MonkeyPatch) -> None:
    look = Election._look

    def impatient(self: Election) -> None:
        self._patience = 0.0
        look(self)

    patch.setattr(Election, "_look", impatient)
