"""The predicted pause of changes that meet a backlog's batches at any moment, compared with what a lane then does."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from anabranch.container.lane import breaking_off
from anabranch.container.lane.breaking_off import Verdict
from anabranch.coordinator.jobs import pause_estimate
from anabranch.coordinator.jobs.change_kind import Kind
from anabranch.coordinator.jobs.pause_estimate import Prediction
from anabranch.pace.batch_cost import BatchCost
from anabranch.pace.break_off_cost import BROKEN_OFF
from anabranch.pace.stored_sizes import FIRST_PART
from anabranch.protocol.container import BatchDecision
from anabranch.protocol.lane_report import BatchProgress, BatchTimes, LanePhase
from tests.support.reports import lane_report
from tests.unit.coordinator.helpers import lane

CHANGES = 400
BEGINS = 0.6
"""The seconds that stateless lanes take to begin in the same containers."""
NUMBER = 8
NOW, BETWEEN = 5000.0, 0.1
FOLLOWED_AFTER, REPORTED_EVERY, TOLD_AFTER, TAKEN_AFTER = 0.5, 1.0, 0.2, 1.0


@dataclass(frozen=True)
class Backlog:
    """A lane whose batches have ``records`` records, one after the other, and are at ``at`` seconds of one of them."""

    cost: BatchCost
    records: int
    at: float
    slots: int

    @property
    def whole(self) -> float:
        return self.cost.seconds(self.records)

    def progress(self, age: float) -> BatchProgress | None:
        """The progress of the batch in a report of this age, at most; when a batch begins or ends, there is another."""
        news = self.at if self.at < FOLLOWED_AFTER else self.at - FOLLOWED_AFTER
        begun = self.at - min(age, news)
        return BatchProgress(number=NUMBER, planned=self.records, seconds=begun) if begun >= FOLLOWED_AFTER else None

    def pause(self, noise: float, decision: BatchDecision | None) -> float:
        """The seconds without output if the change is made now, and batches take longer by the factor ``noise``."""
        spent = self.at + (TAKEN_AFTER if self.slots else TOLD_AFTER)
        if spent > self.whole:  # a batch that begins meanwhile is brief, and isn't broken off
            return BEGINS + noise * self.cost.seconds(self.records / FIRST_PART)
        at = BatchProgress(number=NUMBER, planned=self.records) if spent >= FOLLOWED_AFTER else None
        left = breaking_off.estimated(at, NUMBER, spent, self.whole, self.cost)
        decided = decision.break_off if decision is not None and decision.batch == NUMBER else None
        found = breaking_off.verdict(left, spent, 0.0, False, self.whole, gradual=self.slots > 1, decided=decided)
        broken = found is Verdict.BREAK
        lost = spent + BROKEN_OFF if broken else 0.0
        return lost + (BETWEEN if broken else 0.0) + BEGINS + noise * self.cost.seconds(self.records / FIRST_PART)

    def foretold(self, age: float, made_at: float | None) -> Prediction:
        report = lane_report(
            lane="0-a",
            phase=LanePhase.RUNNING,
            usual_seconds=self.whole,
            batch_times=BatchTimes(fixed=self.cost.fixed, per_record=self.cost.per_record),
            batch=NUMBER - 1,
            limit=self.records,
            slots=self.slots,
            positions={"embedded/flights/0": 1000},
            ends={"embedded/flights/0": 1_000_000},
            batch_progress=self.progress(age),
            last_output=NOW - self.at - BETWEEN,
        )
        following = [lane("0-b", predecessors=("0-a",))]
        return pause_estimate.predicted([lane("0-a")], following, {"0-a": report}, kind=Kind.SAME, made_at=made_at)


def near(cost: BatchCost, records: int, made_at: float | None, slots: int) -> float:
    """The share of changes at random moments that are within 30 % or 0.5 s of what was foretold."""
    chance, found = random.Random(7), 0
    for _ in range(CHANGES):
        backlog = Backlog(cost, records, chance.random() * cost.seconds(records), slots)
        foretold = backlog.foretold(chance.uniform(0.0, REPORTED_EVERY), made_at)
        pause = backlog.pause(chance.uniform(0.85, 1.15), foretold.losses["0-a"].decision)
        off = abs(foretold.seconds - pause)
        found += off <= max(0.5, 0.3 * pause)
    return found / CHANGES


@pytest.mark.parametrize("slots", [0, 1, 4])
@pytest.mark.parametrize(
    ("cost", "records"),
    [
        (BatchCost(0.5, 0.001), 3500),
        (BatchCost(1.0, 0.0005), 6000),
        (BatchCost(2.0, 0.001), 2000),
        (BatchCost(0.5, 0.002), 20_000),
        (BatchCost(0.3, 0.002), 600),
    ],
)
def test_the_pause_of_a_change_is_near_at_nearly_all_moments(cost: BatchCost, records: int, slots: int) -> None:
    """The lane follows what was foretold where a tenth of a second would decide."""
    assert near(cost, records, NOW, slots) >= 0.98


def test_a_plan_that_is_carried_out_at_any_moment_is_less_often_near() -> None:
    cost, records = BatchCost(0.5, 0.001), 3500
    assert 0.3 <= near(cost, records, None, 0) < near(cost, records, NOW, 0)
