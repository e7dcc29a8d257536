"""What happens to a running job when the brokers go away. Soak has topics that do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from anabranch.systems.kafka.broker import Cluster
from tests import kafka_peers
from tests.acceptance.harness import Workspace, flights

pytestmark = pytest.mark.acceptance

FLIGHTS = flights(seed=3, count=3000, days=4, keyless=0)
SMALL = 600


@pytest.fixture
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A broker that only one test has."""
    with kafka_peers.start(tmp_path_factory.mktemp("own")) as started:
        yield started


@pytest.fixture
def workspace(tmp_path: Path, own: Cluster) -> Iterator[Workspace]:
    made = Workspace(tmp_path, own)
    made.put(FLIGHTS)
    yield made
    made.close()


@pytest.mark.timeout(300)
def test_a_broker_that_is_killed_and_comes_back_holds_a_job_up_and_no_more(own: Cluster, workspace: Workspace) -> None:
    """The first start is on a backlog of many batches, of which some are left at the kill; the job goes on by itself,
    and its outputs are exact."""
    process = workspace.start("run", "delays.py", "--available-now", job__max_rows_per_batch=SMALL)
    process.until("two batches", lambda: workspace.committed("0-") >= 1)
    own.kill()
    read = workspace.lane("0-").read
    assert read < 0.8 * len(FLIGHTS), "nearly all was read before the kill"
    own.start_again()
    assert process.wait() == 0, process.stderr
    assert workspace.committed("0-") + 1 >= len(FLIGHTS) // SMALL
    workspace.check_outputs(FLIGHTS)
