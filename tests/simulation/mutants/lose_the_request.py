"""A coordinator doesn't know a wish again that it has done already."""

from __future__ import annotations

import pytest

from anabranch.coordinator.served import Served

BREAKS = frozenset({"asked-once"})


def apply(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Served, "is_known", lambda self, serving, request: False)
