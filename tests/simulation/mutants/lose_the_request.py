"""A coordinator doesn't know a wish again that it has done already."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec
import pytest

from anabranch.coordinator import changing

BREAKS = frozenset({"asked-once"})


def apply(patch: pytest.MonkeyPatch) -> None:
    scaled = changing.scaled

    def forgetful(serving: Any, present: Any, wish: Any, alone: bool) -> Any:
        model = msgspec.structs.replace(present.model, request="")
        return scaled(serving, dataclasses.replace(present, model=model), wish, alone)

    patch.setattr(changing, "scaled", forgetful)
