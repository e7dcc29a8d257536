"""Rejects requests that arrive too slowly, and limits how many refused requests an address may send per minute. Without
these limits, clients could tie up connections or memory. The maximum size of a request is declared with its operation.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from starlette.exceptions import HTTPException
from starlette.types import Message, Receive
from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["PromptHeads", "Refusals", "prompt"]

HEAD_WITHIN = 15.0
"""The seconds within which a request's head must have arrived. For the first request, the seconds are counted from the
beginning of the connection. For a later request, they are counted from the request's first byte.
"""
BODY_WITHIN = 30.0
"""The seconds within which a request's body must arrive, in addition to the time that the body takes at
the rate :data:`SLOWEST`.
"""
SLOWEST = 10_000
"""The lowest rate, in bytes per second, at which a body may arrive."""
MOST_REFUSED = 1_000
"""How many refused requests per minute an address can send. For further refused requests, the answer is 429."""
_WINDOW = 60.0
_ADDRESSES = 1_000


def prompt(receive: Receive, clock: Callable[[], float] = time.monotonic) -> Receive:
    """A wrapper of a request's ``receive`` that raises HTTPException 408 if the request's body doesn't arrive in time.
    The time is counted from this call; for the limit, see :data:`BODY_WITHIN`.
    """
    began, read, whole = clock(), 0, False

    async def received() -> Message:
        nonlocal read, whole
        if whole:
            return await receive()
        left = began + BODY_WITHIN + read / SLOWEST - clock()
        try:
            async with asyncio.timeout(max(left, 0.0)):
                message = await receive()
        except TimeoutError:
            raise HTTPException(408, f"after {read} bytes the rest of the body didn't come in time") from None
        read += len(message.get("body", b""))
        whole = not message.get("more_body", False)
        return message

    return received


class Refusals:
    """Counts how many requests from each address were refused recently."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._counts: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def are_too_many(self, address: str) -> bool:
        """Count another refusal. Returns whether the address has exceeded the limit per minute."""
        now = self._clock()
        since, count = self._counts.get(address, (now, 0))
        if now - since > _WINDOW:
            since, count = now, 0
        self._counts[address] = since, count + 1
        self._counts.move_to_end(address)
        if len(self._counts) > _ADDRESSES:
            self._counts.popitem(last=False)
        return count >= MOST_REFUSED


class PromptHeads(H11Protocol):
    """Closes a connection if the head of a request doesn't arrive in time."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._begin()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        answering = self.cycle is not None and not self.cycle.response_complete
        if answering or not self.conn.trailing_data[0]:
            self._end()
        elif self._timer is None:
            self._begin()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()
        super().connection_lost(exc)

    def _begin(self) -> None:
        self._timer = self.loop.call_later(HEAD_WITHIN, self.transport.close)

    def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
