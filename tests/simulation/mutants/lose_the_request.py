"""A coordinator doesn't know a wish again that it has done already."""

from __future__ import annotations

import pytest

from anabranch.coordinator.store import queries

BREAKS = frozenset({"asked-once"})


def apply(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(queries, "is_known", lambda store, job, request: False)
