"""A change is undone although the lane that failed has run: what it read is read again."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from anabranch.coordinator import reports

BREAKS = frozenset({"each-once", "state-goes-along", "exactly-once"})


def apply(patch: pytest.MonkeyPatch) -> None:
    applied = reports.applied

    def blind(lane: Any, report: Any) -> Any:
        after = applied(lane, report)
        return msgspec.structs.replace(after, ran=False) if after.ran else after

    patch.setattr(reports, "applied", blind)
