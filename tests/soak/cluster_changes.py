"""What a job on a cluster of executors goes through: some are lost in the middle of a batch, then all is changed that
can be changed, while records come."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.acceptance.harness import Workspace
from tests.soak.deployed import FILE, JOB, MORE, Deploying, seldom

__all__ = ["PATIENCE", "go_through"]

PATIENCE = 1200.0
"""Seconds that a step may take: a cluster of several Java processes on one machine needs minutes if that is busy."""
_NEXT = 200
"""So many records come out before the next thing happens."""
_EVERY = 3.0
"""Seconds between two portions of records."""
_WAIT = ("--timeout", f"{PATIENCE:.0f}")


def go_through(
    workspace: Workspace,
    seed: int,
    lose: Callable[[], object],
    executors: Callable[[], Sequence[int]],
    count: int,
    left: Callable[[], Sequence[object]],
) -> str:
    """Lose something; then scale the job up and down, give its input more partitions, drain it, start it again, and
    deploy another version.

    Args:
        executors: those that there are; there must be ``count`` of them again after the loss.
        left: what must be gone once the job has drained.
    """
    job = Deploying(workspace, seed, every=_EVERY)
    job.version("v1", FILE.read_text())
    try:
        job.call("start", FILE.name, *_WAIT)
        job.until_seen("v1", _NEXT)
        lose()
        job.until_seen("v1", _NEXT)
        job.until("its executors are there again", seldom(lambda: len(executors()) == count))
        for factor in (4, 1):
            job.call("scale", JOB, "--factor", str(factor), *_WAIT)
            assert job.client.model(JOB).factor == factor
            job.until_seen("v1", _NEXT)

        job.until_all_is_read()  # no order is promised between old records and those in new partitions
        workspace.system.expand("flights", 8)
        job.call("expand", JOB, *_WAIT)
        job.until_seen("v1", _NEXT)

        job.call("drain", JOB, "--up-to", "latest", *_WAIT)
        assert job.client.status(JOB).state == "drained"
        job.coordinator.until("no container lives", seldom(lambda: not job.processes()))
        job.coordinator.until("nothing of it is left on the cluster", seldom(lambda: not left()))
        job.call("start", FILE.name, *_WAIT)
        job.until_seen("v1", _NEXT)
        job.version("v2", FILE.read_text() + MORE)
        job.call("deploy", FILE.name, *_WAIT)
        job.until_seen("v2", _NEXT)
        job.finish()
        job.check(["v1", "v2"])
    finally:
        job.clear_away()
    return f"{job.put} records, {job.count('v2')} of version 2"
