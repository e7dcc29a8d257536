"""The pods of coordinators in examples/deploy/kubernetes, as processes: one leads, and the other one takes over."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.acceptance.harness import Workspace
from tests.soak.on_kubernetes import COORDINATOR, cluster_of, coordinators, leads

pytestmark = pytest.mark.acceptance


@pytest.mark.long
def test_a_coordinator_that_leads_is_evicted(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    try:
        with cluster_of(workspace) as cluster:
            pods = coordinators(cluster)
            urls = dict(zip(pods, cluster.urls(COORDINATOR).split(","), strict=True))
            first = next(iter(pods.values())).process
            first.until("one leads", lambda: any(map(leads, urls.values())))
            name = next(name for name, url in urls.items() if leads(url))
            leaving = pods.pop(name)
            assert leaving.delete() < leaving.grace
            ((other, pod),) = pods.items()
            pod.process.until("it leads", lambda: leads(urls[other]))
            assert pod.is_ready
            assert json.loads(workspace.call("jobs", "--json").stdout) == []
    finally:
        workspace.close()
