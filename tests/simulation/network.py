"""Calls from containers to coordinators: lost, late, twice, out of order, or cut off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anabranch.coordinator.api.client import AWAY
from anabranch.errors import AnabranchError, OutOfTimeError, UnreachableError
from tests.simulation.coordinators import CoordinatorProcess
from tests.simulation.world import Actor, World

Answered = Callable[[Any], None]


class Network:
    """``cut``: pairs (from, to) of names between which nothing gets through. ``loss``: of each message."""

    def __init__(self, world: World, timeout: float) -> None:
        self.cut: set[tuple[str, str]] = set()
        self.loss = 0.0
        self.slow = 0.0
        self._world = world
        self._timeout = timeout
        self.coordinators: dict[str, CoordinatorProcess] = {}

    def join(self, coordinator: CoordinatorProcess) -> None:
        """A coordinator listens, in the place of the former one of its name."""
        self.coordinators[coordinator.name] = coordinator

    def call(self, caller: Actor, server: str, ask: Callable[[CoordinatorProcess], Any], answered: Answered) -> None:
        """Ask a coordinator. ``answered`` is told what it answers, or the error: once, or more often."""
        told = []

        def tell(answer: Any) -> None:
            told.append(answer)
            answered(answer)

        def served(by: CoordinatorProcess) -> None:
            try:
                answer = by.handle(ask)
            except AnabranchError as error:
                answer = error
            self._send(by.name, caller.name, caller, lambda: tell(answer))

        by = self.coordinators[server]
        if by.dead:
            self._send(server, caller.name, caller, lambda: tell(UnreachableError("nothing listens")))
        else:
            self._send(caller.name, server, by, lambda: served(by))
        caller.after(self._timeout, lambda: None if told else tell(OutOfTimeError("no answer")))

    def _send(self, start: str, end: str, to: Actor, act: Callable[[], None]) -> None:
        world = self._world
        copies = 2 if world.chance(self.loss / 4) else 1
        for _ in range(copies):
            if (start, end) in self.cut or world.chance(self.loss):
                continue
            late = world.between(0.2, 6.0) if world.chance(self.slow) else world.between(0.005, 0.05)
            world.after(late, act, to)


class Client:
    """Asks the coordinator that answered last, and turns to the next one when that is away or stands by."""

    def __init__(self, network: Network, caller: Actor) -> None:
        self._network = network
        self._caller = caller
        self._servers = list(network.coordinators)

    def call(self, ask: Callable[[CoordinatorProcess], Any], answered: Answered) -> None:
        asked = self._servers[0]

        def heard(answer: Any) -> None:
            if isinstance(answer, AWAY) and self._servers[0] == asked:
                self._servers = [*self._servers[1:], asked]
            answered(answer)

        self._network.call(self._caller, asked, ask, heard)
