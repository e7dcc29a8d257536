"""Forks the processes that run user code in isolation: ``python -m anabranch.spark.functions.isolation_host FD``.

The host itself imports nothing from the job. Threads and clients that a module creates at its top level don't survive a
fork, so each fork imports the job's modules itself. When the Python worker ends, the host and its forks end.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark import cloudpickle

from anabranch import sockets
from anabranch.job_code import job_modules
from anabranch.spark.functions import error_text, messages

__all__ = ["FORK", "Channel", "Service", "told"]

FORK = b"f"

_FAILED = 70


def told(code: int) -> str:
    """How a process has ended, in words. ``code`` is its exit code, or the negated number of the signal that ended
    it.
    """
    if code >= 0:
        return f"it ended with exit code {code}"
    name = signal.Signals(-code).name if -code in {each.value for each in signal.Signals} else str(-code)
    return f"killed by {name}"


class Channel:
    """A fork's side of the connection to the Python worker."""

    def __init__(self, worker: socket.socket) -> None:
        self.worker = worker

    def begin(self, count: int) -> Callable[[int], None]:
        """For a request with ``count`` messages, a function that tells the worker which message user code starts to
        work on. If it is called with ``count``, it tells the worker that user code has finished all messages.
        """

        def tell(place: int) -> None:
            messages.send(self.worker, ("begin" if place < count else "worked", place))

        return tell

    def ask(self, question: object) -> Any:
        """Ask the worker a question, and return the answer. Raises RuntimeError if the worker failed to answer."""
        messages.send(self.worker, ("ask", question))
        ok, answer = messages.receive(self.worker)
        if not ok:
            raise RuntimeError(answer)
        return answer


Service = Callable[[Any, Channel], Any]
"""A function that returns the result of a request. It can ask the worker questions through the channel."""


def main(number: int) -> None:
    control = sockets.of_descriptor(number)
    job_modules.enter_from_environment()
    pickled = messages.receive(control)
    failed = _tried(pickled, control)
    with contextlib.suppress(messages.Closed):  # if the worker no longer waits
        messages.send(control, failed)
    if failed:
        return
    gc.collect()
    gc.freeze()
    forks: set[int] = set()
    try:
        _serve(control, pickled, forks)
    finally:
        for pid in forks:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _tried(pickled: bytes, control: socket.socket) -> str:
    """Why a fork can't load the code that it needs; empty if it can load the code."""
    ours, theirs = sockets.pair()
    pid = os.fork()
    if pid == 0:
        try:
            control.close()
            ours.close()
            os.register_at_fork(after_in_child=theirs.close)
            cloudpickle.loads(pickled)
            messages.send(theirs, "")
        except BaseException as error:
            messages.send(theirs, error_text.described(error))
        finally:
            os._exit(0)
    theirs.close()
    try:
        poller = select.poll()  # select can't handle descriptors above 1023
        for each in (ours, control):
            poller.register(each, select.POLLIN)
        if control.fileno() in dict(poller.poll()):  # the worker has ended, or doesn't wait any longer
            os.kill(pid, signal.SIGKILL)
        return str(messages.receive(ours))
    except messages.Closed:
        return "the process has ended while it loaded the job's functions"
    finally:
        ours.close()
        os.waitpid(pid, 0)


def _serve(control: socket.socket, pickled: bytes, forks: set[int]) -> None:
    while True:
        command, received, _, _ = socket.recv_fds(control, 1, 1)
        if not command:
            return
        if command == FORK:
            (connection,) = received
            try:
                pid = os.fork()
            except OSError as error:  # too many processes, or too little memory
                os.close(connection)
                messages.send(control, str(error))
                continue
            if pid == 0:
                control.close()
                _become(sockets.of_descriptor(connection), pickled)
            os.close(connection)
            forks.add(pid)
            messages.send(control, pid)
        else:
            ended = messages.receive(control)
            _, status = os.waitpid(ended, 0)
            forks.discard(ended)
            messages.send(control, os.waitstatus_to_exitcode(status))


def _become(worker: socket.socket, pickled: bytes) -> None:
    """Runs in a fork: answers the worker's requests, and exits when the worker ends."""
    status = _FAILED
    try:
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("1000")  # if memory runs out, the kernel kills this process
        os.register_at_fork(after_in_child=worker.close)  # or a child would hide from the worker that this process died
        open_service: Callable[[], Service] = cloudpickle.loads(pickled)
        channel, service = Channel(worker), open_service()
        while True:
            messages.send(worker, ("done", service(messages.receive(worker), channel)))
    except messages.Closed:
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


if __name__ == "__main__":
    main(int(sys.argv[1]))
