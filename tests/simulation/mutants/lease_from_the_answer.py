"""A leader counts its lease from when its beat was stored, not from before it was sent."""

from __future__ import annotations

import pytest

from anabranch.coordinator.leadership.election import Election

BREAKS = frozenset({"one-leader"})


def apply(patch: pytest.MonkeyPatch) -> None:
    renew = Election._renew

    def late(self: Election) -> None:
        renew(self)
        if self._claimed:
            self._ends = self._clock() + self._lease

    patch.setattr(Election, "_renew", late)
