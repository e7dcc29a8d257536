"""Replaces this process, with the same pid and arguments, by a new Python and a new Java process whose lanes continue
as after a crash.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

from anabranch.cli import progress
from anabranch.cli.main import started_with
from anabranch.config import Settings
from anabranch.container import restarts
from anabranch.container.restarts import ProcessBrokenError, Restarts

__all__ = ["STOPS_WITHIN", "VARIABLE", "Replacer"]

VARIABLE = "ANABRANCH_RESTARTS"
STOPS_WITHIN = 60.0
"""The seconds within which a process must stop everything that it has started."""
_SEEN_WITHIN = 1.0
"""The seconds within which the end of a Java process that no longer answers is noticed."""


class Replacer:
    """For a verb that runs lanes: replaces the process, and remembers earlier replacements.

    It only replaces processes of the command line that have started Java themselves. The new process gets the original
    arguments and environment of this one.
    """

    def __init__(self, may: bool = True) -> None:
        """``may``: whether the process may be replaced at all."""
        self._may = may
        self.restarts = Restarts.of_text(os.environ.pop(VARIABLE, ""))
        self._environment = {**os.environ}
        self._words = [*started_with]
        self._kill_java: Callable[[], None] = lambda: None
        self._batches: Callable[[], Mapping[str, int]] = dict
        self.is_possible = False
        if self.restarts.number:
            progress.say(f"this is new process {self.restarts.number} of {restarts.MOST}: {self.restarts.why}")

    def replace(self, why: str) -> None:
        """Replace the process, which can't continue. Returns if it was replaced too often already, or can't be
        replaced."""
        if not self.is_possible:
            return
        following = self.restarts.after("", self._batches(), why)
        if following is not None:
            self.now(following)

    def take_java(self, kill: Callable[[], None], is_child: bool) -> None:
        """Record that the Java process has started. ``kill`` ends it at once; ``is_child``: whether it is a child of
        this process.
        """
        self._kill_java = kill
        self.is_possible = self._may and bool(self._words) and is_child

    @contextlib.contextmanager
    def session(
        self, settings: Settings, home: str, printed: Path | None, cores: int, ended: threading.Event
    ) -> Iterator[Any]:
        """A Spark session for the duration of the block, started by :func:`anabranch.spark.session.start`. The process
        is replaced if its Java process ends, or if the block can't continue and hasn't stopped within the time limit.

        ``ended`` is set once a watchdog has nothing left to watch.
        """
        from anabranch.container import error_text, watchdog
        from anabranch.spark.internals import java_process
        from anabranch.spark.session import session

        spark = session.start(settings, home, printed, cores)
        self.take_java(lambda: java_process.kill(spark), java_process.is_child(spark))
        watchdog.watch_java(lambda: java_process.is_gone(spark), ended, self.replace)
        try:
            yield spark
        except ProcessBrokenError as broken:
            ended.set()  # a container has given its seat back
            self.within(STOPS_WITHIN, broken.restarts)
            raise
        except Exception as error:
            if error_text.is_of_java(error) and java_process.is_gone(spark, within=_SEEN_WITHIN):
                watchdog.end_without_java(self.replace)
            raise
        finally:
            session.stop(spark)
            ended.set()

    def take_lanes(self, batches: Callable[[], Mapping[str, int]]) -> None:
        """Record that lanes are running. ``batches``: the last committed batch of each."""
        self._batches = batches

    def is_done(self, option: str) -> None:
        """Record that an option has taken effect, so that a new process doesn't repeat it."""
        self._words = [word for word in self._words if word != option]

    def within(self, seconds: float, following: Restarts) -> None:
        """Replace the process after this many seconds if it hasn't been replaced by then."""
        timer = threading.Timer(seconds, self.now, [following])
        timer.daemon = True
        timer.start()

    def in_order(self, following: Restarts) -> NoReturn:
        """Replace the process cleanly, after stopping everything that it has started."""
        self.within(10.0, following)
        self._kill_java()
        atexit._run_exitfuncs()
        self.now(following)

    def now(self, following: Restarts) -> NoReturn:
        """Replace the process at once, without ending anything that it has started."""
        with contextlib.suppress(OSError, ValueError):  # nobody may be there to read it
            progress.say(f"a new process follows: {following.why.splitlines()[0]}")
            sys.stderr.flush()
            sys.stdout.flush()
        self._kill_java()
        environment = {**self._environment, VARIABLE: following.to_text()}
        os.execve(sys.executable, [sys.executable, *self._words], environment)
