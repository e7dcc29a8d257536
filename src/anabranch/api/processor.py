"""The processor: the class that a user writes for ``Stream.process``."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from anabranch.api.state import State
from anabranch.api.timers import Timers

__all__ = ["Processor"]


class Processor:
    """The base class of processors, which process messages one at a time, with state and timers for each key.

    A subclass defines ``on_message`` and, if it uses timers, ``on_timer``.

    Declare state as class attributes. Inside ``on_message`` and ``on_timer``, such an attribute is the state of the
    current key. All other attributes should be constants: they don't belong to a key, and changes to them can be lost.

    ``on_message`` and ``on_timer`` yield rows, or return a list of rows; ``None`` means no rows. A row is a dict, or
    any other kind of row that the function of ``map`` can return.

    If ``on_message`` raises an exception, or one of its rows is invalid, the message becomes a dead letter. The rows of
    the call are dropped, and the call's changes to state and timers are undone. Failures of ``on_timer`` are handled in
    the same way, but the dead letter contains the key and the timer's time instead of a message. With
    ``[job] on_error = "drop"``, there is no dead letter. With ``"fail"``, the lane fails.

    Example:
        ```python
        class Silence(Processor):
            seen = ValueState("timestamp")

            def on_message(self, message, timers):
                before = self.seen.get()
                if before is None or message["at"] > before:  # messages can come out of order
                    self.seen.set(message["at"])
                    timers.register(message["at"] + timedelta(hours=1))

            def on_timer(self, key, at, timers):
                if self.seen.get() == at - timedelta(hours=1):
                    yield {"tailnum": key["tailnum"], "silent_since": self.seen.get()}
        ```
    """

    def on_message(self, message: dict[str, Any], timers: Timers) -> Iterable[dict[str, Any]] | None:
        """Called for each message. Yields or returns rows (see :class:`Processor`). Messages with the same key and
        partition are processed in the partition's order.

        Args:
            message: the columns of the message, by name.
            timers: the timers of the message's key.
        """
        raise NotImplementedError

    def on_timer(self, key: dict[str, Any], at: datetime, timers: Timers) -> Iterable[dict[str, Any]] | None:
        """Called after the messages of a batch, once for each timer whose time is before ``timers.now``. The timers of
        a key fire in the order of their times. Yields or returns rows, in the same form as ``on_message`` (see
        :class:`Processor`).

        Args:
            key: the columns of the stage key, by name.
            at: the time for which the timer was registered, in UTC.
            timers: the timers of the key.
        """
        raise NotImplementedError

    @classmethod
    def states(cls) -> dict[str, State]:
        """The states that the class declares, by attribute name."""
        found = {name: each for base in reversed(cls.__mro__) for name, each in vars(base).items()}
        return {name: each for name, each in found.items() if isinstance(each, State)}

    @classmethod
    def has_timers(cls) -> bool:
        """Whether the class defines ``on_timer``."""
        return cls.on_timer is not Processor.on_timer
