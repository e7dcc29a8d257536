"""A job that was changed many times: what is derived from all its lanes is right, and costs as much as there are lanes.

The lanes of the first stage are divided and merged again and again, and a lane of the second stage stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from anabranch.coordinator.jobs import offers, snapshots
from anabranch.coordinator.jobs.parts import DeploymentTerms, RunSettings
from anabranch.coordinator.jobs.running_job import RunningJob
from anabranch.model.deployment_state import DeploymentState
from anabranch.model.job_model import JobModel
from anabranch.model.lane import LaneState
from anabranch.protocol.drain import DrainNotification, DrainProgress
from tests.support import costs
from tests.unit.coordinator.helpers import lane, report

READER = "1-reader"
DRAIN = DrainProgress(notification=DrainNotification(uuid="1", run_id=1))
LAST = (LaneState.RUNNING, LaneState.CLOSED, LaneState.FAILED)


def changed(cycles: int, last: LaneState, *, both: bool = True, until_caught_up: bool = False) -> RunningJob:
    """A job after so many cycles, in which its newest lane of the first stage is ``last``.

    ``both``: whether a lane is divided in each cycle; otherwise, one lane follows another.
    """
    lanes = [lane("0-first", deployment=1)]
    for number in range(cycles):
        before = (lanes[-1].id,)
        halves = [f"0-{number}-{half}" for half in ("a", "b" if both else "a")]
        lanes += [lane(name, deployment=1, predecessors=before, opened=True) for name in dict.fromkeys(halves)]
        lanes.append(lane(f"0-{number}", deployment=1, predecessors=tuple(dict.fromkeys(halves)), opened=True))
    its = [msgspec.structs.replace(each, state=LaneState.CLOSED) for each in lanes]
    its[-1] = msgspec.structs.replace(its[-1], state=last)
    its.append(lane(READER, deployment=1, upstream=("0-first",), state=LaneState.RUNNING))
    return RunningJob(
        job="delays",
        deployment=1,
        model=JobModel(job="delays", run_id=1, generation=1, factor=1, stages=(), containers=()),
        state=DeploymentState.RUNNING,
        terms=DeploymentTerms(RunSettings.of({}), until_caught_up, {}),
        known={each.id: each for each in its},
    )


def draining(cycles: int, last: LaneState, *, both: bool = True) -> RunningJob:
    job = changed(cycles, last, both=both)
    job.state, job.progress.drain = DeploymentState.DRAINING, DRAIN
    return job


def catching_up(cycles: int, last: LaneState, *, both: bool = True) -> RunningJob:
    return changed(cycles, last, both=both, until_caught_up=True)


def upstream_ended(job: RunningJob) -> bool:
    return next(each.upstream_ended for each in offers.wanted(job) if each.lane.id == READER)


def starved(job: RunningJob) -> bool:
    return next(each.starved for each in snapshots.taken(job, 0.0).lanes if each.id == READER)


@pytest.mark.parametrize("both", [True, False])
@pytest.mark.parametrize(("cycles", "last"), [(cycles, last) for cycles in (0, 1, 3) for last in LAST])
def test_a_lane_reads_what_the_successors_of_those_before_it_write(cycles: int, last: LaneState, both: bool) -> None:
    assert upstream_ended(draining(cycles, last, both=both)) is (last is LaneState.CLOSED)
    assert upstream_ended(catching_up(cycles, last, both=both)) is (last is LaneState.CLOSED)
    assert starved(changed(cycles, last, both=both)) is (last is LaneState.FAILED)
    assert not upstream_ended(changed(cycles, last, both=both))  # a lasting run speaks of no end


def test_it_has_caught_up_with_those_that_have_caught_up() -> None:
    job = catching_up(3, LaneState.RUNNING)
    job.reports = {"0-2": report("0-2", "ended")}
    assert upstream_ended(job)
    job.reports = {"0-2": report("0-2", "ended", stopped=True)}
    assert not upstream_ended(job)


@pytest.mark.parametrize(
    ("made", "derived"), [(draining, upstream_ended), (catching_up, upstream_ended), (changed, starved)]
)
def test_more_changes_cost_no_more_than_their_lanes(
    made: Callable[..., RunningJob], derived: Callable[[RunningJob], bool]
) -> None:
    small, large = (made(cycles, LaneState.FAILED) for cycles in (8, 16))
    few, many = ({"it": costs.calls(lambda job=job: derived(job))} for job in (small, large))  # type: ignore[misc]
    assert costs.too_dear(few, many) == {}
    assert derived(made(2000, LaneState.CLOSED, both=False)) is (derived is upstream_ended)
