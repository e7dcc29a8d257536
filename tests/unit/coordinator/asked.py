"""A coordinator that tests ask in this process and over HTTP."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from anabranch.coordinator.api import listening
from anabranch.coordinator.api.client import Client
from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.store import Store
from tests.unit.coordinator.helpers import Clock


@pytest.fixture
def coordinator(store: Store, clock: Clock) -> Coordinator:
    return Coordinator(store, clock, now=lambda: 7.0)


@pytest.fixture(params=["in process", "over HTTP"])
def asked(request: pytest.FixtureRequest, coordinator: Coordinator) -> Iterator[Coordinator | Client]:
    """What verbs and containers talk to."""
    if request.param == "in process":
        yield coordinator
        return
    server = listening.serve(coordinator)
    with Client(server.url) as client:
        yield client
    server.close()


def states(asked: Coordinator | Client) -> tuple[str, list[str]]:
    status = asked.status("delays")
    return status.state, [one.lane.state.value for one in status.lanes]
