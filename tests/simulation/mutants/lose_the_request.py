"""A coordinator doesn't know a wish again that it has done already."""

from __future__ import annotations

import pytest

from anabranch.coordinator.service import Coordinator

BREAKS = frozenset({"asked-once"})


def apply(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Coordinator, "_is_known", lambda self, serving, request: False)
