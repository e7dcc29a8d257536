"""A coordinator that starts containers itself. Soak kills them, and the coordinator."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.acceptance.harness import Workspace
from tests.soak import launched
from tests.soak.served import JOB, Served

pytestmark = pytest.mark.acceptance


@pytest.fixture
def served(workspace: Workspace) -> Iterator[Served]:
    yield launched.served(workspace, seed=7, warm=0)
    launched.clear_away(workspace)


@pytest.mark.long
def test_a_job_runs_without_anybody_starting_a_container(served: Served) -> None:
    served.start()
    client = served.workspace.client(served.url)
    served.coordinator.until("the job's end", lambda: client.status(JOB).state == "stopped")
    served.coordinator.until("that of its container", lambda: not launched.processes(served.workspace))
    served.check()
    what = [event.what.split(",")[0] for event in client.events(JOB) if event.who == "launcher"]
    assert what.count("started a container") == 1
    assert not [each for each in what if "restarted" in each]
    served.end()
