"""A coordinator among several: the real one, its election and its turns; only its threads and fencing are modelled."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, cast

from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.jobs.fencing import Fence
from anabranch.coordinator.leadership.election import Election
from anabranch.coordinator.leadership.leadership import Leadership
from anabranch.coordinator.store import Store
from anabranch.errors import AnabranchError, NotLeadingError, StateError
from anabranch.protocol.container import HeartbeatResponse, Registration, RegistrationResponse
from anabranch.systems.systems import Systems
from tests.simulation.inputs import Source
from tests.simulation.store import Line, MemoryStore
from tests.simulation.world import Actor

if TYPE_CHECKING:
    from anabranch.container.seat_lease import SentHeartbeat
    from tests.simulation.containers import ContainerProcess
    from tests.simulation.scenario import Scenario

LEASE, GRACE = 4.0, 1.0
_TURN = 0.5
_AGAIN = 1.0
_LOOKS = 1.0


class CoordinatorProcess(Actor):
    """``line``: its connection to the store."""

    def __init__(self, scenario: Scenario, name: str) -> None:
        super().__init__(scenario.world, name)
        self._scenario = scenario
        self.line = Line(MemoryStore(scenario.database), self, scenario.invariants.wrote)
        store = cast(Store, self.line)
        self.coordinator = Coordinator(
            store,
            self._clock,
            LEASE,
            lambda: self.world.now,
            GRACE,
            lambda: self.world.random.getrandbits(40),
            cast(Systems, Source()),
            self._count,
        )
        self.election = Election(store, name, self._clock, LEASE, GRACE)
        self.leadership = _Leadership(self, store)
        self.after(self.world.between(0.0, _TURN), self._turn)
        self.after(self.world.between(0.0, _LOOKS), self._look)

    @property
    def leads_until(self) -> float:
        return self.election.leads_until

    def handle(self, ask: Callable[[CoordinatorProcess], Any]) -> Any:
        """What a leader may do, or say: as :mod:`anabranch.coordinator.api.server` does it."""
        self.leadership.check()
        done = ask(self)
        self.leadership.check()
        self._scenario.invariants.leads()
        return done

    def register(self, registration: Registration) -> RegistrationResponse:
        return self.coordinator.register(registration)

    def heartbeat(self, process: ContainerProcess, sent: SentHeartbeat) -> HeartbeatResponse:
        answer = self.coordinator.heartbeat(sent.beat)
        if not answer.alive:
            self.note(f"tells {process.name} to stop: {answer.reason}")
        return answer

    def fence(self, fence: Fence, done: Callable[[], None]) -> None:
        """Fence a lane at its output, some time from now, and say so to the coordinator."""
        lane, world = fence.lane, self.world
        slow = world.chance(0.1)

        def fenced() -> None:
            try:
                self.coordinator.fenced(lane)
                done()
            except AnabranchError as error:
                later(error)

        def act() -> None:
            try:
                if world.chance(0.1):
                    raise StateError("the output doesn't answer")
                self._scenario.storage.output(lane).fence(lane.epoch)
            except AnabranchError as error:
                later(error)
            else:
                self.note(f"fenced {lane.id} at epoch {lane.epoch}")
                self.after(world.between(0.5, 6.0) if slow else 0.02, fenced)

        def later(error: AnabranchError) -> None:
            self.note(f"{lane.id} can't be fenced yet: {error}")
            try:
                if self.leadership.leads and not isinstance(error, NotLeadingError):
                    self.coordinator.fence_failed(lane, str(error))
            except AnabranchError as also:
                self.note(f"nor can that be stored: {also}")
            self.after(_AGAIN, done)

        self.after(world.between(0.5, 6.0) if slow else world.between(0.05, 0.3), act)

    def _turn(self) -> None:
        led = self.leadership.leads
        try:
            self.leadership.turn()
        except AnabranchError as error:
            self.note(f"can't go on now: {error}")
        if self.leadership.leads is not led:
            self.note("leads" if self.leadership.leads else "stands by")
        if self.leads_until > self.world.now:
            self._scenario.invariants.leads()
        self.after(self.world.between(0.8, 1.0) * _TURN, self._turn)

    def _look(self) -> None:
        try:
            self.coordinator.look()
        except AnabranchError as error:
            self.note(f"can't look at inputs now: {error}")
        if self.leads_until > self.world.now:
            self._scenario.invariants.leads()
        self.after(_LOOKS, self._look)

    def _count(self, job: str, settings: object, streams: Iterable[str], patterns: object) -> dict[str, int]:
        if self.world.chance(0.1):
            raise AnabranchError("the system doesn't answer", "look at it")
        return {name: self._scenario.partitions[job] if name == "embedded/in" else 1 for name in streams}

    def _clock(self) -> float:
        now = self.world.now
        if self.world.chance(0.0005):
            self.world.hold(self, self.world.between(0.1, 9.0))
        return now


class _Leadership(Leadership):
    """Its turns are taken and its fences are done by events, not by threads."""

    def __init__(self, process: CoordinatorProcess, store: Store) -> None:
        url = "postgresql://simulated/simulated"
        super().__init__(process.coordinator, store, url, process.election, process.name, lambda lane, settings: None)
        self._process = process
        self._under_way: set[tuple[str, int]] = set()

    def hand_out(self, fence: Fence) -> None:
        key = fence.lane.id, fence.lane.epoch
        if key not in self._under_way:
            self._under_way.add(key)
            self._process.fence(fence, lambda: self._under_way.discard(key))
