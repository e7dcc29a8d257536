"""A coordinator doesn't know a wish again that it has done already."""

from __future__ import annotations

import pytest

from anabranch.coordinator.jobs.registry import JobRegistry

BREAKS = frozenset({"asked-once"})


def apply(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(JobRegistry, "is_known", lambda self, job, request: False)
