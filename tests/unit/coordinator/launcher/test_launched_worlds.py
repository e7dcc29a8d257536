"""A world in which anything happens to containers: no doubles are started, and it settles."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import event, given, settings
from hypothesis import strategies as st

from anabranch.coordinator.launcher import launch_policy
from anabranch.coordinator.launcher.launch_policy import (
    COMES_WITHIN,
    ENDS_WITHIN,
    LIMIT,
    LONGEST_PAUSE,
    Crew,
    Demand,
    ProcessEnd,
)
from tests.unit.coordinator.launches import CRASH, Job

LEASE, GRACE, TURN = 10.0, 2.0, 1.0
FAULTS = ("crash", "freeze", "wake", "leave", "replace", "restart", "stop", "start", "outsider")
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
    unknown: bool = False
    """Whether nothing on this machine can know of it: it was replacing itself when the coordinator was restarted."""


class World:
    """A coordinator with one job, processes that start, ask, freeze, die and replace themselves, and the launcher's
    steps."""

    def __init__(self, seats: int, warm: int) -> None:
        self.now = 1000.0
        self.seats, self.warm = seats, warm
        self.runs = True
        self.begun = self.now
        self.sure_from = 0.0
        self.actors: dict[str, Actor] = {}
        self.seat_until: dict[str, float] = {}  # holders, and when their leases end
        self.ended: dict[str, ProcessEnd] = {}
        self.returning: dict[str, float] = {}
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
            actor.unknown = False
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
                self.returning.pop(name, None)
            else:
                actor.asked = self.now
                self.returning.pop(name, None)

    def replace(self, name: str, seconds: float) -> None:
        """A process with a seat gives it back, and asks for one as a new process after so many seconds."""
        actor = self.actors[name]
        if actor.seated and not (actor.frozen or actor.expelled) and self.seat_until.pop(name, None) is not None:
            actor.seated, actor.ready_at = False, self.now + seconds
            self.returning[name] = self.now

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
            returning={name: at for name, at in self.returning.items() if at > self.now - COMES_WITHIN},
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
        return [n for n, a in self.actors.items() if a.alive and not (a.frozen or a.expelled or a.leaving or a.unknown)]

    def restart(self) -> None:
        """Another launcher on the same machine: it knows who lives, and no exit codes."""
        living = [name for name, actor in self.actors.items() if actor.own and actor.alive]
        self.crew = Crew(dead=frozenset(n for n, a in self.actors.items() if a.own and not a.alive))
        for name in self.returning:
            self.actors[name].unknown = not self.actors[name].own
        self.ended, self.returning = {}, {}
        self.begun, self.sure_from = self.now, self.now + LEASE
        self.seat_until = dict.fromkeys(self.seat_until, self.now + LEASE)
        for name in living:
            self.crew, _ = launch_policy.joined(self.crew, name, self.now)


@given(st.data(), st.integers(1, 3), st.integers(0, 2))
@settings(max_examples=60)
def test_whatever_happens_no_doubles_are_started_and_it_settles(data: st.DataObject, seats: int, warm: int) -> None:
    world = World(seats, warm)
    for _ in range(data.draw(st.integers(0, 12), "faults")):
        for _ in range(data.draw(st.integers(1, 60), "turns")):
            world.turn()
        living = [name for name, actor in world.actors.items() if actor.alive]
        fault = data.draw(st.sampled_from(FAULTS))
        name = data.draw(st.sampled_from(living)) if living else None
        if fault == "crash" and name is not None:
            world.crashes += world.actors[name].own
            world.die(name, data.draw(st.sampled_from([1, -9, None])))
        elif fault in {"freeze", "wake"} and name is not None:
            world.actors[name].frozen = fault == "freeze"
        elif fault == "leave" and name is not None:
            world.actors[name].leaving = True
        elif fault == "replace" and name is not None:
            world.replace(name, data.draw(st.sampled_from([8.0, 2 * ENDS_WITHIN])))
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
@settings(max_examples=20)
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
