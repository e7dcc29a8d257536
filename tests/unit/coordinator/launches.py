"""A job whose containers are started, as tests of the launcher play it."""

from __future__ import annotations

from dataclasses import dataclass, field

from anabranch.coordinator.launcher import launch_policy
from anabranch.coordinator.launcher.launch_policy import (
    Crew,
    Demand,
    Plan,
    ProcessEnd,
)

CRASH = ProcessEnd(1, "no Java")


@dataclass
class Job:
    """A job whose processes do what the test says. ``now`` is the clock."""

    wanted: int = 1
    now: float = 100.0
    crew: Crew = field(default_factory=Crew)
    made: int = 0
    holders: set[str] = field(default_factory=set)
    standing_by: set[str] = field(default_factory=set)
    waiting: set[str] = field(default_factory=set)
    returning: dict[str, float] = field(default_factory=dict)
    spare: int = 0
    busy: bool = False
    preparing: bool = False
    over: bool = False
    begun: float = 1.0
    sure_from: float = 0.0

    def step(self, after: float = 0.0, **ended: ProcessEnd) -> Plan:
        """A step, and all that it starts; those that ended aren't heard any more but as holders."""
        self.now += after
        self.standing_by -= ended.keys()
        demand = Demand(
            job="delays",
            wanted=self.wanted,
            spare=self.spare,
            busy=self.busy,
            preparing=self.preparing,
            over=self.over,
            begun=self.begun,
            sure_from=self.sure_from,
            holders=frozenset(self.holders),
            standing_by=frozenset(self.standing_by),
            waiting=frozenset(self.waiting),
            returning=dict(self.returning),
        )
        plan = launch_policy.step(self.crew, demand, ended, self.now)
        self.crew = plan.crew
        for _ in range(plan.start):
            self.crew, _ = launch_policy.joined(self.crew, f"p{self.made}", self.now)
            self.made += 1
        return plan

    @property
    def alive(self) -> list[str]:
        return [member.execution for member in self.crew.members]
