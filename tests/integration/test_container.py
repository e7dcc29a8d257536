"""A container told by a coordinator, both in this process: a job runs until it is caught up, and says so."""

from __future__ import annotations

import json
from typing import Any

import pytest

from anabranch import Job
from anabranch.container.reconciliation import Container
from anabranch.coordinator.service import Coordinator
from anabranch.coordinator.store.store import Store
from anabranch.messages import JobStatus, Registration, Start
from tests.integration.harness import Site


def caught_up(site: Site, job: Job) -> JobStatus:
    """Hand a new deployment over, and run it to the ends that its inputs have now."""
    run = site.deployed(job)
    coordinator = Coordinator(Store("sqlite://"))
    coordinator.start(
        Start(graph=job.graph, model=run.plan.model, lanes=tuple(run.lanes), fingerprint={}, until_caught_up=True)
    )
    container = Container(site.spark, coordinator, run.settings, job.graph, job.functions, run.schemas, {}, "")
    container.run(Registration(job=job.name, seat="0", execution="x", host="here", pid=1))
    return coordinator.status(job.name)


@pytest.mark.parametrize("via", ["stream", "spark"])
def test_a_job_runs_until_it_is_caught_up(site: Site, via: Any) -> None:
    site.log.create("in", 2)
    for partition in range(2):
        site.put("in", partition, [{"d": f"d{n % 2}"} for n in range(10)])
    job = Job("j")
    job.read("in", schema="d string").partition_by("d", via=via).agg(c="count(*)").write("out")
    status = caught_up(site, job)
    assert status.state == "stopped"
    assert {r["key"]: json.loads(r["value"])["c"] for r in site.all_records("out")} == {b"d0": 10, b"d1": 10}


def test_a_job_that_begins_at_the_newest_records_reads_none_of_the_older(site: Site) -> None:
    site.log.create("in", 1)
    site.put("in", 0, [{"n": 1}])
    job = Job("j")
    job.read("in", schema="n int", start="latest").write("out")
    assert caught_up(site, job).state == "stopped"
    assert site.all_records("out") == []
