"""Threads for operations that have to wait for the systems of a job's streams, such as Kafka. No other operation uses
these threads, and each job may use only a few of them. So a job whose brokers don't answer can't hold up anything else.
Questions and changes are counted separately. So clients that may only read can't keep other clients from changing a
job.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from anabranch.errors import ConflictError

__all__ = ["Asking"]

_MOST = 8

T = TypeVar("T")


class Asking:
    """Runs calls that may ask the systems of a job's streams. All uses must be on the same event loop."""

    def __init__(self) -> None:
        self._under_way: Counter[tuple[str, bool]] = Counter()

    async def run(self, job: str, act: Callable[[], T], *, changes: bool) -> T:
        """Call ``act`` in its own thread. ``changes`` is True if ``act`` changes the job, and False if it only asks
        something. Raises ConflictError if too many threads of this kind are already running for the job.
        """
        kind = job, changes
        if self._under_way[kind] >= _MOST:
            raise ConflictError(
                f"{_MOST} requests for job {job!r} are already waiting for the systems of its streams",
                f"see with anabranch status {job} whether its systems answer, and ask again",
            )
        loop = asyncio.get_running_loop()

        def ended() -> None:
            self._under_way[kind] -= 1
            self._under_way += Counter()  # forget jobs that have no thread

        self._under_way[kind] += 1
        threads = ThreadPoolExecutor(1, "anabranch-asks")
        asked = threads.submit(act)
        asked.add_done_callback(lambda _: loop.call_soon_threadsafe(ended))
        threads.shutdown(wait=False)
        return await asyncio.wrap_future(asked)
