"""Forks the processes in which user code runs in isolation: ``python -m anabranch.spark.functions.isolation_host FD``.

The host itself imports nothing from the job. Threads and clients that a module creates at its top level don't survive a
fork, so each fork imports the job's modules itself. When the Python worker ends, the host and its forks end.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark import cloudpickle

from anabranch.job_code import job_modules
from anabranch.spark.functions import error_text, messages

__all__ = ["FORK", "Channel", "Service"]

FORK = b"f"

_FAILED = 70


class Channel:
    """A fork's side of the connection to the Python worker."""

    def __init__(self, worker: socket.socket) -> None:
        self.worker = worker

    def begin(self, place: int) -> None:
        """Tell the worker that user code starts to work on the message with the number ``place``."""
        messages.send(self.worker, ("begin", place))

    def ask(self, question: object) -> Any:
        """Ask the worker a question, and return the answer. Raises RuntimeError if answering has failed in the
        worker."""
        messages.send(self.worker, ("ask", question))
        ok, answer = messages.receive(self.worker)
        if not ok:
            raise RuntimeError(answer)
        return answer


Service = Callable[[Any, Channel], Any]
"""A function that returns the result of a request. It can ask the worker questions through the channel."""


def main(number: int) -> None:
    control = socket.socket(fileno=number)
    job_modules.enter_from_environment()
    pickled = messages.receive(control)
    failed = _tried(pickled)
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


def _tried(pickled: bytes) -> str:
    """Why a fork can't load the code that it needs; empty if it can load the code."""
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        try:
            cloudpickle.loads(pickled)
            messages.send(theirs, "")
        except BaseException as error:
            messages.send(theirs, error_text.described(error))
        finally:
            os._exit(0)
    theirs.close()
    try:
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
            pid = os.fork()
            if pid == 0:
                control.close()
                _become(socket.socket(fileno=connection), pickled)
            os.close(connection)
            forks.add(pid)
            messages.send(control, pid)
        else:
            ended = messages.receive(control)
            _, status = os.waitpid(ended, 0)
            forks.discard(ended)
            messages.send(control, status)


def _become(worker: socket.socket, pickled: bytes) -> None:
    """Runs in a fork: answers the worker's requests, and exits when the worker ends."""
    status = _FAILED
    try:
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("1000")  # if memory runs out, the kernel kills this process
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
