"""Replaces this process, with the same pid and arguments, by a new Python and a new Java whose lanes go on as after a
crash.
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
"""Seconds that a process may take to stop everything that it has started."""
_SEEN_WITHIN = 1.0
"""Seconds until a Java process that no longer answers is seen to have ended."""


class Replacer:
    """For a verb that runs lanes: what it knows about the processes that it has replaced.

    It only replaces processes of the command line that have started Java themselves. A new process gets the arguments
    and the environment that this one had at first.
    """

    def __init__(self, may: bool = True) -> None:
        """``may``: whether it may replace anything."""
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
        """Replace the process, which can't go on; returns if that was done often enough, or isn't possible."""
        if not self.is_possible:
            return
        following = self.restarts.after("", self._batches(), why)
        if following is not None:
            self.now(following)

    def take_java(self, kill: Callable[[], None], is_child: bool) -> None:
        """Record that the Java process has started. ``kill`` ends it at once; ``is_child``: it is this
        process's child.
        """
        self._kill_java = kill
        self.is_possible = self._may and bool(self._words) and is_child

    @contextlib.contextmanager
    def session(
        self, settings: Settings, home: str, printed: Path | None, cores: int, ended: threading.Event
    ) -> Iterator[Any]:
        """A Spark session until the end of the block, started by :func:`anabranch.spark.session.start`. The process is
        replaced if its Java process ends, or if the block can't go on and hasn't stopped within the time limit.

        ``ended`` is set once there is nothing left for a watchdog to look after.
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
        """Record that there are lanes; ``batches``: the last committed one of each."""
        self._batches = batches

    def is_done(self, option: str) -> None:
        """Record that an option has taken effect, so that a new process need not do it again."""
        self._words = [word for word in self._words if word != option]

    def within(self, seconds: float, following: Restarts) -> None:
        """Replace the process after this many seconds if it hasn't been replaced by then."""
        timer = threading.Timer(seconds, self.now, [following])
        timer.daemon = True
        timer.start()

    def in_order(self, following: Restarts) -> NoReturn:
        """Replace the process, which has stopped everything that it had started."""
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
