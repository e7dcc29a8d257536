"""The processor: the class that a user writes for ``Stream.process``."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from anabranch.api.state import State
from anabranch.api.timers import Timers

__all__ = ["Processor"]


class Processor:
    """Processes messages one at a time, with state and timers for each key. Subclass it.

    Declare state as class attributes. Inside the two methods, an attribute is the state of the current key. Other
    attributes belong to a worker process, not to a key: use only constants.

    Both methods return rows (dicts, or anything else that ``map`` may return), by ``yield``, as a list, or ``None`` for
    no rows. A message on which a method raises becomes a dead letter, and its changes to state and timers are undone.

    Example:
        ```python
        class Silence(Processor):
            seen = ValueState("timestamp")

            def on_message(self, message, timers):
                self.seen.set(message["at"])
                timers.register(message["at"] + timedelta(hours=1))

            def on_timer(self, key, at, timers):
                if self.seen.get() == at - timedelta(hours=1):
                    yield {"tailnum": key["tailnum"], "silent_since": self.seen.get()}
        ```
    """

    def on_message(self, message: dict[str, Any], timers: Timers) -> Iterable[dict[str, Any]] | None:
        """Called for each message. Messages of one key come in the order of their partition.

        Args:
            message: the columns of the row.
            timers: the timers of the message's key.
        """
        raise NotImplementedError

    def on_timer(self, key: dict[str, Any], at: datetime, timers: Timers) -> Iterable[dict[str, Any]] | None:
        """Called once for each due timer, the earliest first, after the messages of a batch.

        Args:
            key: the columns of the stage key.
            at: the time for which the timer was registered, in UTC.
            timers: the timers of the key.
        """
        raise NotImplementedError

    @classmethod
    def states(cls) -> dict[str, State]:
        """The declared state, by attribute name."""
        found = {name: each for base in reversed(cls.__mro__) for name, each in vars(base).items()}
        return {name: each for name, each in found.items() if isinstance(each, State)}

    @classmethod
    def has_timers(cls) -> bool:
        """Whether the class defines ``on_timer``."""
        return cls.on_timer is not Processor.on_timer
