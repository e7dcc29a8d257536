"""Clocks are set, by an hour, a day and a year, while a job runs, and differ between its containers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from anabranch.testing.broker import Cluster
from tests.acceptance.harness import Workspace
from tests.soak import clocks
from tests.support.set_clock import COMPILER

pytestmark = [
    pytest.mark.acceptance,
    pytest.mark.long,
    pytest.mark.skipif(COMPILER is None, reason="there is no C compiler for a clock that can be set"),
]


@pytest.fixture
def workspace_in_kafka(tmp_path: Path, cluster: Cluster) -> Iterator[Workspace]:
    made = Workspace(tmp_path, cluster)
    yield made
    made.close()


def test_no_record_is_lost_or_held_up_whatever_the_clock_does(workspace: Workspace) -> None:
    clocks.windows(0, workspace)


def test_nor_in_kafka(workspace_in_kafka: Workspace) -> None:
    clocks.windows(0, workspace_in_kafka)


def test_leases_go_by_no_clock_that_can_be_set(workspace: Workspace) -> None:
    clocks.containers_apart(0, workspace)


def test_so_does_the_autoscaler(workspace: Workspace) -> None:
    clocks.scaled_by_itself(0, workspace)
