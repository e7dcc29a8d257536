"""A container that is frozen inside a batch. Soak has more, as a coordinator that is away, and all of it on Kafka."""

from __future__ import annotations

import random

import pytest

from tests.acceptance.harness import Workspace
from tests.soak import failover
from tests.soak.served import Served

pytestmark = pytest.mark.acceptance


@pytest.fixture
def served(workspace: Workspace) -> Served:
    return Served(workspace, count=4800, seed=7)


@pytest.mark.long
def test_a_container_that_was_frozen_inside_a_batch_has_lost_its_seat(served: Served) -> None:
    failover.frozen(random.Random(1), served)
    served.end()
