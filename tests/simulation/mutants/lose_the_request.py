"""A coordinator doesn't know a wish again that it has done already."""

from __future__ import annotations

import pytest

from anabranch.coordinator.store import stored_jobs

BREAKS = frozenset({"asked-once"})


def apply(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(stored_jobs, "requested", lambda store, job, request: None)
