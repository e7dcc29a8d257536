"""The flights that arrive during the tour. A thread writes them to a stream."""

from __future__ import annotations

import math
import threading
import time
from contextlib import closing

import pyarrow as pa

from anabranch.errors import AnabranchError
from anabranch.systems.contract import System
from anabranch.tour import flights

__all__ = ["Arrivals"]

_EVERY = 0.25
_ENDS_WITHIN = 30.0


class Arrivals:
    """Writes flights to a stream, as a context manager, until the end of the block.

    Args:
        rate: flights per second; can be changed. The actual rate falls with the number of flights that are left, so
            that they never run out: after a fifth of the flights, it is lower by a fifth.
    """

    def __init__(self, system: System, stream: str, rate: float) -> None:
        self.rate = rate
        self.count = 0
        """How many flights have been written to the stream."""
        self._all = flights.read()
        self._system = system
        self._stream = stream
        self._over = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="arrivals", daemon=True)

    def __enter__(self) -> Arrivals:
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(_ENDS_WITHIN)

    @property
    def written(self) -> pa.Table:
        """The flights that have been written to the stream."""
        return self._all.slice(0, self.count)

    def start(self) -> None:
        """Let flights arrive from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Let no more flights arrive, and wait until the last one has been written."""
        self._over.set()
        self._thread.join()
        self.check()

    def check(self) -> None:
        """Raises AnabranchError if flights can no longer be written."""
        if self._error is not None:
            raise AnabranchError(f"flights can't be written into the stream {self._stream}: {self._error}")

    def _run(self) -> None:
        last, exact = time.monotonic(), 0.0
        try:
            while not self._over.wait(_EVERY):
                now = time.monotonic()
                passed = (now - last) * self.rate / self._all.num_rows
                exact -= (self._all.num_rows - exact) * math.expm1(-passed)
                last, due = now, int(exact)
                if due > self.count:
                    # a new appender each time, which writes to all partitions that the stream has by now
                    with closing(self._system.appender(self._stream)) as appender:
                        appender.append(flights.records(self._all.slice(self.count, due - self.count)))
                    self.count = due
        except Exception as error:
            self._error = error
