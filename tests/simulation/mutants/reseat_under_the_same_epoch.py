"""A lane that another seat must close keeps the epoch that it was fenced under."""

from __future__ import annotations

import pytest

from tests.simulation.store import MemoryStore

BREAKS = frozenset({"epochs-rise", "one-owner"})


def apply(patch: pytest.MonkeyPatch) -> None:
    reseat = MemoryStore.reseat

    def kept(self: MemoryStore, *args: object) -> object:
        with pytest.MonkeyPatch.context() as within:
            within.setattr(MemoryStore, "next_epoch", lambda self, job: self.database.epochs[job])
            return reseat(self, *args)  # type: ignore[arg-type]

    patch.setattr(MemoryStore, "reseat", kept)
