"""The jobs of benchmarks, which run for half an hour or more and rarely, are jobs of this version."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from bench import growth, outages, pauses, slow_bucket
from bench.support import sides
from bench.support.backlogs import WORKS, Backlog

from anabranch import Job


def jobs() -> Iterator[tuple[str, str]]:
    yield "growth", growth.JOB
    yield "slow bucket", slow_bucket.JOB
    for work in outages.WORKS:
        yield f"outages {work}", outages.JOB.format(work=outages.WORKS[work])
    for work in pauses.JOBS:
        yield f"pauses {work}", pauses.JOB.format(work=pauses.JOBS[work])
    for work in WORKS:
        yield f"backlog {work}", Backlog(work, 10, 2.0, 1, 10.0).job("backlog", Path("/tmp/first"))
    for work, code in sides.JOBS.items():
        yield f"side {work}", f"from anabranch import Job\n\njob = Job('side')\n{code}"


@pytest.mark.parametrize(("name", "code"), [pytest.param(*each, id=each[0]) for each in jobs()])
def test_it_can_be_loaded(name: str, code: str) -> None:
    found: dict[str, object] = {"__name__": "job"}
    exec(compile(code, f"{name}.py", "exec"), found)
    assert isinstance(found["job"], Job)
    assert found["job"].graph.nodes
