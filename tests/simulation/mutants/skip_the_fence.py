"""A lane counts as fenced although nobody fenced its output."""

from __future__ import annotations

import pytest

from tests.simulation.outputs import Output

BREAKS = frozenset({"one-owner", "exactly-once", "stopped-is-stopped"})


def apply(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Output, "fence", lambda self, epoch: None)
