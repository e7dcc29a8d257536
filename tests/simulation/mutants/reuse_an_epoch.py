"""A process that loses its seat doesn't raise the job's epoch: its lanes are fenced under its own."""

from __future__ import annotations

import pytest

from tests.simulation.store import MemoryStore

BREAKS = frozenset({"epochs-rise", "one-owner"})


def apply(patch: pytest.MonkeyPatch) -> None:
    expel = MemoryStore.expel

    def reused(self: MemoryStore, *args: object) -> object:
        with pytest.MonkeyPatch.context() as within:
            within.setattr(MemoryStore, "next_epoch", lambda self, job: self.database.epochs[job])
            return expel(self, *args)  # type: ignore[arg-type]

    patch.setattr(MemoryStore, "expel", reused)
