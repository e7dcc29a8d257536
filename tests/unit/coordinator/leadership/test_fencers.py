"""Lanes are fenced in threads of their job."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from anabranch.coordinator.jobs.fencing import Fence
from anabranch.coordinator.leadership.fencers import Fencers
from tests.unit.coordinator.helpers import lane, wait_for

HELD_UP = [Fence(lane(f"lane-{number:08x}", job="held up"), {}) for number in range(100)]
OTHER = Fence(lane("other-00000001", job="other"), {})


class Brokers:
    """Those of the job ``held up`` answer once they are let; ``asked``, ``answered``: the lanes in order."""

    def __init__(self) -> None:
        self.let = threading.Event()
        self.asked: list[str] = []
        self.answered: list[str] = []

    def fence(self, fence: Fence) -> bool:
        self.asked.append(fence.lane.id)
        if fence is not OTHER:
            assert self.let.wait(30)
        self.answered.append(fence.lane.id)
        return True


@pytest.fixture
def fencers() -> Iterator[Fencers]:
    found = Fencers()
    yield found
    found.keep(())


def test_a_job_whose_brokers_do_not_answer_holds_up_no_other(fencers: Fencers) -> None:
    brokers = Brokers()
    for fence in (*HELD_UP, OTHER, *HELD_UP):
        fencers.hand_out(fence, brokers.fence)
    wait_for(lambda: bool(brokers.answered))
    assert brokers.answered == [OTHER.lane.id]
    brokers.let.set()
    wait_for(lambda: len(brokers.answered) == 101)
    assert len(set(brokers.asked)) == 101


def test_what_is_no_longer_due_is_not_begun(fencers: Fencers) -> None:
    brokers = Brokers()
    for fence in HELD_UP:
        fencers.hand_out(fence, brokers.fence)
    wait_for(lambda: bool(brokers.asked))
    fencers.keep([OTHER])
    brokers.let.set()
    fencers.hand_out(HELD_UP[-1], brokers.fence)
    wait_for(lambda: HELD_UP[-1].lane.id in brokers.answered)
    assert len(brokers.asked) < len(HELD_UP)
