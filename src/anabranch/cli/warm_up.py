"""Warms up the session of a container while it stands by, with :mod:`anabranch.cli.warming` in a thread."""

from __future__ import annotations

import threading
import time
from typing import Any

from anabranch.cli import progress

__all__ = ["WarmUp"]

_ENDS_WITHIN = 10.0


class WarmUp:
    """Warms up a Spark session in a thread: :meth:`begin` starts a job (see :func:`anabranch.cli.warming.warm`). Use
    this object in a ``with`` block: at the end of the block, a job that is still running is asked to end early. A
    session on a cluster isn't warmed up.

    Attributes:
        begun: whether :meth:`begin` was called.
        is_done: whether the warm-up has ended, successfully or not.
    """

    def __init__(self, spark: Any) -> None:
        self.begun = self.is_done = False
        self._spark = spark
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="warming", daemon=True)

    def __enter__(self) -> WarmUp:
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()

    def begin(self) -> None:
        self.begun = True
        self._thread.start()

    def end(self) -> None:
        """Ask the warm-up to end early, and wait up to ten seconds for its end."""
        self._over.set()
        if self.begun:
            self._thread.join(_ENDS_WITHIN)

    def _run(self) -> None:
        try:
            self._warm()
        finally:
            self.is_done = True

    def _warm(self) -> None:
        from anabranch.cli import warming
        from anabranch.spark.session import cluster

        if cluster.is_under(self._spark):
            return
        begun = time.monotonic()
        try:
            warming.warm(self._spark, self._over)
        except Exception as error:  # harmless: the warm-up only makes the first batches quicker
            if not self._over.is_set():
                progress.say(f"warning: the warm-up job failed, so the first batches will take longer: {error}")
            return
        if not self._over.is_set():
            progress.say(f"a warm-up job has run for {time.monotonic() - begun:.0f} s: warm")
