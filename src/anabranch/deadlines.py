"""Waits, with a deadline, for a condition that other threads or processes bring about, for a server's answer, or for a
program to end."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import IO, Any, TypeVar

__all__ = ["answered_within", "run_within", "wait_until"]

T = TypeVar("T")


def wait_until(
    look: Callable[[], T | None],
    within: float,
    late: Callable[[], BaseException],
    every: float,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
) -> T:
    """Call ``look`` until its result isn't None, and return the result.

    ``look`` is called once more after the deadline, before the error is raised.

    Args:
        within: the seconds until the deadline.
        late: returns the error to raise after the deadline.
        every: the seconds between two calls to ``look``. The last pause before the deadline can be shorter.
    """
    deadline = clock() + within
    while True:
        over = clock() >= deadline
        result = look()
        if result is not None:
            return result
        if over:
            raise late()
        sleep(min(every, max(0.0, deadline - clock())))


def answered_within(
    gen: Generator[Any, Any, T],
    limit: float,
    late: Callable[[], BaseException],
    *,
    clock: Callable[[], float] = time.monotonic,
) -> Generator[Any, Any, T]:
    """A generator for psycopg's ``Connection.wait`` that does what ``gen`` does, but raises ``late()`` if the server
    hasn't answered within ``limit`` seconds. Whenever nothing has arrived for a moment, psycopg sends a false value to
    the generator. The generator then checks the time.
    """
    end = clock() + limit
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            if not ready and clock() > end:
                raise late()
            wanted = gen.send(ready)
    except StopIteration as done:
        value: T = done.value
        return value


def run_within(
    command: Sequence[str],
    within: float,
    late: Callable[[], BaseException],
    *,
    env: Mapping[str, str] | None = None,
    output: IO[bytes] | None = None,
) -> int:
    """Run a program without input, and return its exit code. If the program hasn't ended after ``within`` seconds, or
    if the wait is interrupted, the program and all processes that it has started are killed. Killing only the program
    wouldn't be enough: ``mvn``, for example, is a shell script that starts Java.

    Args:
        late: returns the error to raise after the deadline.
        output: the file for the program's output; None to discard the output. A pipe wouldn't do, because a pipe must
            be read until all processes of the program have ended.

    Raises:
        OSError: the program can't be run.
    """
    to = subprocess.DEVNULL if output is None else output
    with subprocess.Popen(
        command, env=env, stdin=subprocess.DEVNULL, stdout=to, stderr=to, start_new_session=True
    ) as process:
        try:
            return process.wait(within)
        except subprocess.TimeoutExpired as error:
            raise late() from error
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
