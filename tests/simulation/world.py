"""The world of one run: virtual time, actors that can be frozen and killed, and everything that will happen."""

from __future__ import annotations

import contextlib
import heapq
import itertools
from collections.abc import Callable
from random import Random

_AFTER = 1e-6


class Gone(BaseException):
    """The actor that was running has been killed in the middle of a call."""


class Actor:
    """A process. It does nothing while it is frozen, and nothing any more once it is dead."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.dead = False
        self.frozen_until = 0.0
        self.held = False

    @property
    def frozen(self) -> bool:
        return self.frozen_until > self.world.now

    def note(self, what: str) -> None:
        self.world.trace.append((self.world.now, self.name, what))

    def after(self, delay: float, act: Callable[[], None]) -> None:
        self.world.after(delay, act, self)

    def freeze(self, seconds: float) -> None:
        self.note(f"frozen for {seconds:.2f} s")
        self.frozen_until = max(self.frozen_until, self.world.now + seconds)

    def kill(self, why: str) -> None:
        if not self.dead:
            self.note(f"ends: {why}")
            self.dead = True


class World:
    """``random``: the only source of chance. ``faults``: whether things still go wrong."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.now = 0.0
        self.faults = False
        self.trace: list[tuple[float, str, str]] = []
        self._coming: list[tuple[float, int, Actor | None, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._end = 0.0

    def chance(self, probability: float) -> bool:
        """Whether a fault happens."""
        return self.faults and self.random.random() < probability

    def between(self, low: float, high: float) -> float:
        return low + (high - low) * self.random.random()

    def after(self, delay: float, act: Callable[[], None], actor: Actor | None = None) -> None:
        heapq.heappush(self._coming, (self.now + delay, next(self._numbers), actor, act))

    def run(self, end: float) -> None:
        """Let everything happen that is due until then."""
        before, self._end = self._end, end
        while self._coming and self._coming[0][0] <= end:
            at, number, actor, act = heapq.heappop(self._coming)
            self.now = max(self.now, at)
            if actor is None:
                act()
            elif actor.dead:
                continue
            elif actor.frozen or actor.held:
                heapq.heappush(self._coming, (max(actor.frozen_until, self.now + _AFTER), number, actor, act))
            else:
                with contextlib.suppress(Gone):
                    act()
        self.now, self._end = max(self.now, end), before

    def hold(self, actor: Actor, seconds: float) -> None:
        """Freeze an actor in the middle of a call, while all others go on."""
        actor.note(f"held for {seconds:.2f} s in the middle of a call")
        actor.frozen_until, actor.held = max(actor.frozen_until, self.now + seconds), True
        while actor.frozen and self.now < self._end:
            self.run(min(actor.frozen_until, self._end))
        actor.held = False
        if actor.dead:
            raise Gone
