"""Runs one seed."""

from __future__ import annotations

import itertools
import secrets
from unittest import mock

from structlog.testing import capture_logs

from tests.simulation.invariants import Broken
from tests.simulation.scenario import Scenario

Trace = list[tuple[float, str, str]]


def run(seed: int) -> tuple[Trace, Broken | None]:
    """What happened, and the invariant that was broken, if one was."""
    scenario = Scenario(seed)
    try:
        with (
            capture_logs(),
            mock.patch.object(secrets, "token_hex", side_effect=(f"{number:08x}" for number in itertools.count())),
        ):
            scenario.run()
    except Broken as broken:
        return scenario.world.trace, broken
    return scenario.world.trace, None
