"""Replaces this Python process and its Java process. The new Python process has the same pid. Lanes continue as after a
crash.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

from anabranch.cli import progress
from anabranch.cli.main import started_with
from anabranch.config import Settings
from anabranch.container import restarts
from anabranch.container.restarts import ProcessBrokenError, Restarts
from anabranch.errors import AnabranchError

__all__ = ["STOPS_WITHIN", "TOLD_WITHIN", "VARIABLE", "Replacer"]

VARIABLE = "ANABRANCH_RESTARTS"
STOPS_WITHIN = 60.0
"""How many seconds a process is given to stop everything that it has started."""
_CURE = (
    "see that this Python is still in its place and can be executed; the job continues from its last batches when it "
    "is started again"
)
_SEEN_WITHIN = 1.0
"""How long, in seconds, to check whether a Java process that doesn't answer has ended."""
_ENDS_WITHIN = 5.0
"""The value used instead of ``_SEEN_WITHIN`` if this process was told to end. The Java process may have got the same
signal. If so, the Java process stops Spark before it ends, and therefore takes longer to end."""
TOLD_WITHIN = 0.1
"""How long, in seconds, to wait after the Java process has ended. A signal may have ended the Java process and have
reached this process, too. In this case, the signal's handler can run during the wait.
"""


class Replacer:
    """Replaces the process of a verb that runs lanes, and remembers earlier replacements.

    A process can be replaced only if it was started as ``anabranch`` and has started Java itself. A process that was
    told to end is never replaced. The new process gets the original environment and arguments, without options that
    have taken effect (see :meth:`is_done`).
    """

    def __init__(self, may: bool = True) -> None:
        """``may``: False if the process must never be replaced."""
        self._may = may
        self.restarts = Restarts.of_text(os.environ.pop(VARIABLE, ""))
        self._environment = {**os.environ}
        self._words = [*started_with]
        self._kill_java: Callable[[], None] = lambda: None
        self._batches: Callable[[], Mapping[str, int]] = dict
        self._is_stopping: Callable[[], bool] = lambda: False
        self._code: int | None = None
        self._ending = threading.Lock()
        self.is_possible = False
        if self.restarts.number:
            progress.say(f"this is new process {self.restarts.number} of {restarts.MOST}: {self.restarts.why}")

    def replace(self, why: str) -> None:
        """Replace the process because it can't continue. If the process was told to end, end it instead.

        Returns only if the process can't be replaced, if it has been replaced too often, or if a new process would
        restart a job that is being stopped."""
        latest = time.monotonic() + TOLD_WITHIN
        while self._code is None and time.monotonic() < latest:
            time.sleep(0.01)
        self._end_if_told(why)
        if not self.is_possible or self._is_stopping():
            return
        following = self.restarts.after("", self._batches(), why)
        if following is not None:
            self.now(following)

    def told_to_end(self, number: int) -> None:
        """Record that a signal told this process to end. From now on, the process isn't replaced. Instead, it ends with
        exit code 130 after SIGINT, or 0 after another signal.
        """
        self._code = 128 + number if number == signal.SIGINT else 0

    def take_java(self, kill: Callable[[], None], is_child: bool) -> None:
        """Record that the Java process has started. ``kill`` ends the Java process at once. ``is_child`` says whether
        the Java process is a child of this process.
        """
        self._kill_java = kill
        self.is_possible = self._may and bool(self._words) and is_child

    @contextlib.contextmanager
    def session(
        self, settings: Settings, home: str, printed: Path | None, cores: int, ended: threading.Event
    ) -> Iterator[Any]:
        """A Spark session for the block, from :func:`anabranch.spark.session.session.start`.

        If the Java process ends, this process is replaced or, if :meth:`replace` returns, ended. If the block raises
        ProcessBrokenError, this process is replaced (see :meth:`now`) after ``STOPS_WITHIN`` seconds at the latest.
        When watchdogs have nothing left to watch, ``ended`` is set.
        """
        from anabranch.container import error_text, watchdog
        from anabranch.spark.internals import java_process
        from anabranch.spark.session import session

        spark = session.start(settings, home, printed, cores)
        self.take_java(lambda: java_process.kill(spark), java_process.is_child(spark))
        watchdog.watch_java(lambda: java_process.is_gone(spark), ended, self.replace)
        try:
            try:
                yield spark
            except ProcessBrokenError as broken:
                ended.set()  # at this point, a container has given its seat back
                self.within(STOPS_WITHIN, broken.restarts)
                raise
            finally:
                session.stop(spark)
        except ProcessBrokenError:
            raise
        except Exception as error:
            ended.set()  # otherwise, the watchdog could end the process before the error is shown
            told = self._code is not None
            within = _ENDS_WITHIN if told else _SEEN_WITHIN
            if (told or error_text.is_of_java(error)) and java_process.is_gone(spark, within):
                if not error_text.is_of_java(error):  # perhaps it would have been raised without the signal, too
                    _say(f"error: {error}")
                watchdog.end_without_java(self.replace)
            raise
        finally:
            ended.set()

    def take_lanes(
        self, batches: Callable[[], Mapping[str, int]], is_stopping: Callable[[], bool] = lambda: False
    ) -> None:
        """Record that lanes are running. ``batches`` returns the last committed batch of each lane. ``is_stopping``
        returns whether the job is being stopped; if so, a new process must not restart it.
        """
        self._batches = batches
        self._is_stopping = is_stopping

    def is_done(self, option: str) -> None:
        """Record that an option has taken effect, so a new process doesn't repeat it."""
        self._words = [word for word in self._words if word != option]

    def within(self, seconds: float, following: Restarts) -> None:
        """Replace the process after ``seconds``, unless it is replaced earlier. For ``following``, see :meth:`now`."""
        timer = threading.Timer(seconds, self.now, [following])
        timer.daemon = True
        timer.start()

    def in_order(self, following: Restarts) -> NoReturn:
        """Stop everything that the process has started, then replace the process. If stopping takes longer than ten
        seconds, replace the process anyway. For ``following``, see :meth:`now`."""
        self.within(10.0, following)
        self._kill_java()
        atexit._run_exitfuncs()
        self.now(following)

    def now(self, following: Restarts) -> NoReturn:
        """Replace the process at once, or end it if it was told to end. The Java process is ended first, but
        nothing else is stopped. ``following`` is the record of replacements for the new process. If this process can't
        be replaced, it ends with a message."""
        self._kill_java()
        self._end_if_told(following.why)
        _say(f"a new process follows: {following.why.splitlines()[0]}")
        environment = {**self._environment, VARIABLE: following.to_text()}
        try:
            os.execve(sys.executable, [sys.executable, *self._words], environment)
        except (OSError, ValueError) as error:
            _say(f"error: the new process couldn't be started: {error}\n  {_CURE}")
            os._exit(AnabranchError.exit_code)

    def _end_if_told(self, why: str) -> None:
        """End the process at once if it was told to end. ``why`` says why it can't continue."""
        if self._code is None:
            return
        first = why.splitlines()[0]
        with self._ending:  # never released, so that only one thread says so
            _say(f"no new process follows, as this one was told to end: {first}; the next start finishes its batches")
            os._exit(self._code)


def _say(line: str) -> None:
    with contextlib.suppress(OSError, ValueError):  # stderr may be closed
        progress.say(line)
        sys.stderr.flush()
        sys.stdout.flush()
