"""Writes flights to a stream during the tour, in a separate thread."""

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
    """A context manager that writes flights to a stream, from :meth:`start` until :meth:`stop` or the end of the block.

    Args:
        rate: flights per second while no flights have been written yet; can be changed later. The actual rate falls in
            proportion to the number of remaining flights, so that the flights never run out.
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
        """Begin to write flights."""
        self._thread.start()

    def stop(self) -> None:
        """Stop writing flights, and wait for the end of the last write. Raises AnabranchError if a write failed."""
        self._over.set()
        self._thread.join()
        self.check()

    def check(self) -> None:
        """Raise AnabranchError if writing flights has failed."""
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
                    # a new appender each time, because partitions may have been added to the stream
                    with closing(self._system.appender(self._stream)) as appender:
                        appender.append(flights.records(self._all.slice(self.count, due - self.count)))
                    self.count = due
        except Exception as error:
            self._error = error
