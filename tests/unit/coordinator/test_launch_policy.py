"""Whom the local launcher starts and ends: cases by hand, and a world in which anything happens."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from anabranch.coordinator import launch_policy
from anabranch.coordinator.launch_policy import (
    COMES_WITHIN,
    ENDS_WITHIN,
    FIRST_PAUSE,
    LIMIT,
    LONGEST_PAUSE,
    RUNS_WELL,
    SURPLUS_FOR,
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
            over=self.over,
            begun=self.begun,
            sure_from=self.sure_from,
            holders=frozenset(self.holders),
            standing_by=frozenset(self.standing_by),
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


def running(warm: int = 1) -> Job:
    """One process has the seat, p0, the others stand by."""
    job = Job(wanted=1 + warm)
    assert job.step().start == 1 + warm
    job.holders = {"p0"}
    job.standing_by = {f"p{n}" for n in range(1, 1 + warm)}
    assert job.step(5.0).start == 0
    return job


def test_a_job_gets_as_many_as_it_wants_at_once_and_no_more() -> None:
    job = Job(wanted=3)
    assert job.step().start == 3
    assert [job.step(1.0).start for _ in range(30)] == [0] * 30  # Spark is starting


def test_those_of_others_count() -> None:
    job = Job(wanted=3, holders={"x"}, standing_by={"y"})
    assert job.step().start == 1


def test_after_an_adoption_nothing_is_started_before_it_is_sure_who_lives() -> None:
    job = Job(wanted=2, sure_from=110.0, holders={"x"})
    assert job.step(9.0).start == 0
    job.standing_by = {"y"}
    assert job.step(2.0).start == 0
    job.standing_by = set()
    assert job.step().start == 1


@pytest.mark.parametrize("how", [CRASH, ProcessEnd(-9), ProcessEnd(None), ProcessEnd(130)])
def test_one_that_crashed_is_replaced_after_a_pause_though_it_has_its_seat_still(how: ProcessEnd) -> None:
    job = running(warm=1)
    assert job.step(p0=how).start == 0
    assert job.step(FIRST_PAUSE).start == 1  # p0's lease goes on
    job.holders = {"p1"}
    job.standing_by = {"p2"}
    assert job.step(20.0).start == 0


@pytest.mark.parametrize("how", [ProcessEnd(0), ProcessEnd(4)])
def test_one_that_gave_its_seat_back_or_was_fenced_is_replaced_at_once(how: ProcessEnd) -> None:
    job = running(warm=0)
    plan = job.step(p0=how)
    assert (plan.start, job.crew.failures) == (1, 0)
    assert plan.news == (("container process p0 ended", how.how),)


@pytest.mark.parametrize("how", [ProcessEnd(0), ProcessEnd(4)])
def test_one_that_ended_before_it_was_heard_has_failed_whatever_its_code(how: ProcessEnd) -> None:
    job = Job()
    job.step()
    assert job.step(1.0, p0=how).start == 0
    assert job.crew.failures == 1


def test_one_that_lost_its_seat_and_is_frozen_is_replaced_at_once_and_ended_in_time() -> None:
    job = running(warm=1)
    job.holders = {"p1"}
    job.standing_by = set()
    assert job.step().start == 1
    assert job.step(ENDS_WITHIN - 1).end == ()
    assert job.step(1.0).end == ("p0",)
    assert job.step(ENDS_WITHIN - 1).kill == ()
    assert job.step(1.0).kill == ("p0",)
    assert job.step(1.0, p0=ProcessEnd(-9)).start == 0
    assert job.crew.failures == 0


def test_one_that_stood_by_and_is_not_heard_is_replaced_and_may_come_back() -> None:
    job = running(warm=1)
    job.standing_by = set()
    assert job.step().start == 1
    job.standing_by = {"p1", "p2"}
    assert job.step(5.0).end == ()
    assert job.step(SURPLUS_FOR).end == ("p2",)
    job.standing_by = {"p1"}
    assert job.step(5.0, p2=ProcessEnd(0)).start == 0
    assert job.crew.failures == 0


def test_surplus_is_ended_only_among_those_that_stand_by_here() -> None:
    job = running(warm=1)
    job.standing_by |= {"x", "y"}
    assert job.step().end == ()
    assert job.step(SURPLUS_FOR).end == ("p1",)
    assert job.step(SURPLUS_FOR, p1=ProcessEnd(0)).end == ()
    assert job.alive == ["p0"]


def test_pauses_grow_to_a_bound_and_then_it_gives_up_until_it_is_asked_to_try_again() -> None:
    job, pauses = Job(), []
    for _ in range(LIMIT):
        begun, waited = job.made, 0.0
        while job.step().start == 0:
            waited += 0.25
            job.now += 0.25
        pauses.append(waited)
        plan = job.step(0.5, **{f"p{begun}": CRASH})
    assert pauses == [0.0] + [min(LONGEST_PAUSE, 2.0**n) for n in range(LIMIT - 1)]
    assert plan.news[-1] == (f"gave up starting containers after {LIMIT} failures in a row", CRASH.how)
    assert job.crew.gave_up
    again = [job.step(LONGEST_PAUSE) for _ in range(10)]
    assert {(plan.start, plan.news) for plan in again} == {(0, ())}
    job.begun = job.now
    assert job.step().start == 1
    assert (job.crew.gave_up, job.crew.failures) == (False, 0)


def test_those_that_were_started_together_and_fail_together_are_one_failure() -> None:
    job = Job(wanted=4)
    job.step()
    for n in range(4):
        job.step(0.1, **{f"p{n}": CRASH})
    assert job.crew.failures == 1
    assert job.step(FIRST_PAUSE).start == 4


def test_failures_are_forgotten_after_one_has_run_well() -> None:
    job = running(warm=0)
    job.step(p0=CRASH)
    job.holders = set()
    assert job.step(FIRST_PAUSE).start == 1
    job.holders = {"p1"}
    job.step(5.0)
    job.step(RUNS_WELL - 1)
    assert job.crew.failures == 1
    job.step(1.0)
    assert job.crew.failures == 0


def test_one_that_was_there_before_the_failure_proves_nothing() -> None:
    job = running(warm=1)
    job.step(RUNS_WELL, p1=CRASH)
    job.step(0.5)
    assert job.crew.failures == 1


def test_one_that_never_asks_for_a_seat_has_failed_and_is_ended() -> None:
    job = Job()
    job.step()
    assert job.step(COMES_WITHIN - 1).end == ()
    plan = job.step(1.0)
    assert plan.end == ("p0",)
    assert "didn't ask for a seat" in job.crew.reason
    assert job.step(FIRST_PAUSE).start == 1
    job.step(1.0, p0=ProcessEnd(-15))
    assert job.crew.failures == 1


def test_a_job_that_stops_gets_none_and_its_holder_may_take_its_time() -> None:
    job = running(warm=1)
    job.wanted = 0
    plan = job.step(10 * ENDS_WITHIN, p1=CRASH)
    assert (plan.start, plan.end, job.crew.failures) == (0, (), 0)


def test_a_job_that_has_ended_leaves_nobody() -> None:
    job = running(warm=1)
    job.wanted, job.over, job.holders, job.standing_by = 0, True, set(), set()
    job.step()
    assert job.step(ENDS_WITHIN).end == ("p0", "p1")
    assert job.step(ENDS_WITHIN, p1=ProcessEnd(0)).kill == ("p0",)
    assert job.step(1.0, p0=ProcessEnd(-9)).crew.members == ()


def test_a_restart_is_told_from_a_start() -> None:
    crew, again = launch_policy.joined(Crew(owed=1), "p1", 5.0)
    assert again
    assert not launch_policy.joined(crew, "p2", 5.0)[1]


def test_what_is_shown_counts_those_that_are_of_use() -> None:
    job = running(warm=1)
    job.step(p1=CRASH)
    demand = Demand(job="delays", wanted=2, holders=frozenset({"p0", "x"}))
    shown = launch_policy.shown(job.crew, demand, "/logs")
    assert (shown.wanted, shown.running, shown.failures, shown.reason) == (2, 2, 1, CRASH.how)


LEASE, GRACE, TURN = 10.0, 2.0, 1.0
SETTLED = COMES_WITHIN + 4 * ENDS_WITHIN + 2 * LONGEST_PAUSE


@dataclass
class Actor:
    """A process of the world, ours or not."""

    own: bool
    ready_at: float
    frozen: bool = False
    seated: bool = False
    expelled: bool = False
    leaving: bool = False
    asked: float = -1e9
    alive: bool = True


class World:
    """A coordinator with one job, processes that start, ask, freeze and die, and the launcher's steps."""

    def __init__(self, seats: int, warm: int) -> None:
        self.now = 1000.0
        self.seats, self.warm = seats, warm
        self.runs = True
        self.begun = self.now
        self.sure_from = 0.0
        self.actors: dict[str, Actor] = {}
        self.seat_until: dict[str, float] = {}  # holders, and when their leases end
        self.ended: dict[str, ProcessEnd] = {}
        self.crew = Crew()
        self.crashes = 0
        self.gave_up = 0

    @property
    def wanted(self) -> int:
        return self.seats + self.warm if self.runs else 0

    def coordinate(self) -> None:
        for name in [name for name, until in self.seat_until.items() if until + GRACE <= self.now]:
            del self.seat_until[name]
            if name in self.actors:
                self.actors[name].expelled = True
        for name, actor in self.actors.items():
            if not actor.alive or actor.frozen or self.now < actor.ready_at:
                continue
            if actor.expelled:
                self.die(name, 4)
            elif not self.runs or actor.leaving:
                self.seat_until.pop(name, None)
                self.die(name, 0)
            elif actor.seated:
                self.seat_until[name] = self.now + LEASE
            elif len(self.seat_until) < self.seats:
                actor.seated = True
                self.seat_until[name] = self.now + LEASE
            else:
                actor.asked = self.now

    def die(self, name: str, code: int | None) -> None:
        actor = self.actors[name]
        if actor.alive:
            actor.alive = False
            if actor.own:
                self.ended[name] = ProcessEnd(code)

    def turn(self) -> None:
        self.now += TURN
        self.coordinate()
        demand = Demand(
            job="delays",
            wanted=self.wanted,
            over=not self.runs,
            begun=self.begun,
            sure_from=self.sure_from,
            holders=frozenset(self.seat_until),
            standing_by=frozenset(n for n, a in self.actors.items() if not a.seated and a.asked > self.now - LEASE),
        )
        plan = launch_policy.step(self.crew, demand, self.ended, self.now)
        self.ended = {}
        self.crew = plan.crew
        self.gave_up += sum(what.startswith("gave up") for what, _ in plan.news)
        if plan.start:
            assert self.now >= self.sure_from, "it started one before it was sure who lives"
            assert not self.crew.gave_up
            assert plan.start + len(self.useful()) <= self.wanted, "it started a double"
        for _ in range(plan.start):
            name = f"p{len(self.actors)}"
            self.actors[name] = Actor(own=True, ready_at=self.now + 8.0)
            self.crew, _ = launch_policy.joined(self.crew, name, self.now)
        for name in plan.end:
            self.actors[name].leaving = True
        for name in plan.kill:
            assert self.actors[name].own
            self.die(name, -9)

    def useful(self) -> list[str]:
        return [n for n, a in self.actors.items() if a.alive and not (a.frozen or a.expelled or a.leaving)]

    def restart(self) -> None:
        """Another launcher on the same machine: it knows who lives, and no exit codes."""
        living = [name for name, actor in self.actors.items() if actor.own and actor.alive]
        self.crew = Crew(dead=frozenset(n for n, a in self.actors.items() if a.own and not a.alive))
        self.ended = {}
        self.begun, self.sure_from = self.now, self.now + LEASE
        self.seat_until = dict.fromkeys(self.seat_until, self.now + LEASE)
        for name in living:
            self.crew, _ = launch_policy.joined(self.crew, name, self.now)


@given(st.data(), st.integers(1, 3), st.integers(0, 2))
@settings(max_examples=60, deadline=None)
def test_whatever_happens_no_doubles_are_started_and_it_settles(data: st.DataObject, seats: int, warm: int) -> None:
    world = World(seats, warm)
    for _ in range(data.draw(st.integers(0, 12), "faults")):
        for _ in range(data.draw(st.integers(1, 60), "turns")):
            world.turn()
        living = [name for name, actor in world.actors.items() if actor.alive]
        fault = data.draw(st.sampled_from(["crash", "freeze", "wake", "leave", "restart", "stop", "start", "outsider"]))
        name = data.draw(st.sampled_from(living)) if living else None
        if fault == "crash" and name is not None:
            world.crashes += world.actors[name].own
            world.die(name, data.draw(st.sampled_from([1, -9, None])))
        elif fault in {"freeze", "wake"} and name is not None:
            world.actors[name].frozen = fault == "freeze"
        elif fault == "leave" and name is not None:
            world.actors[name].leaving = True
        elif fault == "restart":
            world.restart()
        elif fault in {"stop", "start"} and world.runs != (fault == "start"):
            world.runs, world.begun = fault == "start", world.now
        elif fault == "outsider":
            world.actors[f"x{len(world.actors)}"] = Actor(own=False, ready_at=world.now)
    event(f"gave up: {world.gave_up}")
    for actor in world.actors.values():
        if not actor.own:
            actor.frozen = False
    for _ in range(int(SETTLED / TURN)):
        world.turn()
    own = [name for name in world.useful() if world.actors[name].own]
    others = [name for name in world.useful() if not world.actors[name].own]
    assert world.gave_up <= world.crashes // LIMIT
    assert len(own) == max(0, world.wanted - len(others)) or (len(own) <= seats and len(others) > warm)
    assert not any(actor.frozen and actor.alive for actor in world.actors.values()), "frozen ones were ended"
    assert len(world.seat_until) == (seats if world.runs else 0)


@given(st.lists(st.floats(0.1, 50.0), min_size=LIMIT, max_size=3 * LIMIT), st.integers(1, 4))
@settings(max_examples=20, deadline=None)
def test_where_nothing_can_run_it_gives_up_after_a_bounded_number_of_starts(lives: list[float], wanted: int) -> None:
    job = Job(wanted=wanted)
    ends: dict[str, float] = {}
    for _ in range(int(LIMIT * (LONGEST_PAUSE + 60))):
        plan = job.step(1.0, **{name: CRASH for name in job.alive if ends[name] <= job.now + 1.0})
        for n in range(plan.start):
            name = f"p{job.made - plan.start + n}"
            ends[name] = job.now + lives[(job.made - n) % len(lives)]
    assert job.crew.gave_up
    assert job.made <= LIMIT * wanted
    assert not job.alive
    assert replace(job.crew, members=()) == job.crew
