"""The processor: what a user writes for ``Stream.process``."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from anabranch.api.state import State
from anabranch.api.timers import Timers

__all__ = ["Processor"]


class Processor:
    """Takes messages one by one, with state and timers for each key.

    State is declared in the class, and used in the two functions, where it is that of the message's (or the timer's)
    key::

        class Silence(Processor):
            seen = ValueState("timestamp")

            def on_message(self, message, timers):
                self.seen.set(message["at"])
                timers.register(message["at"] + timedelta(hours=1))

            def on_timer(self, key, at, timers):
                if self.seen.get() == at - timedelta(hours=1):
                    yield {"plane": key["tailnum"], "silent_since": self.seen.get()}

    Each function gives rows, as dicts, or nothing. Attributes that aren't state belong to a worker process, not to a
    key: set none there but constants.
    """

    def on_message(self, message: dict[str, Any], timers: Timers) -> Iterable[dict[str, Any]] | None:
        """Called for each message; those of a key in the order of their partition."""
        raise NotImplementedError

    def on_timer(self, key: dict[str, Any], at: datetime, timers: Timers) -> Iterable[dict[str, Any]] | None:
        """Called once for each timer, after the messages of a batch. ``key``: the columns of the stage key."""
        raise NotImplementedError

    @classmethod
    def states(cls) -> dict[str, State]:
        """What was declared, by name."""
        found = {name: each for base in reversed(cls.__mro__) for name, each in vars(base).items()}
        return {name: each for name, each in found.items() if isinstance(each, State)}

    @classmethod
    def has_timers(cls) -> bool:
        """Whether there is an ``on_timer``."""
        return cls.on_timer is not Processor.on_timer
