"""Forks processes that stand in for the Python processes that Spark starts: Spark's daemons, and the processes of
Python sources.

Spark starts a daemon for each of the programs that it runs in Python, and a process for each Python source of a query.
Each of these processes would spend 0.3 s to 2.3 s on imports, on a core that batches of lanes need at the same time.
See :mod:`fork_client`.
"""

from __future__ import annotations

import gc
import importlib
import os
import re
import runpy
import select
import signal
import socket
import sys
import threading
import traceback
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress

from anabranch.spark.internals import random_numbers, worker_path

__all__ = ["serve"]

_WAITING = 64
_STREAMS = 3
_AT_START = re.compile(rb"PYTHONHASHSEED|TZ|(OMP|OPENBLAS|MKL|NUMEXPR|ARROW|MALLOC|LD)_.*")
"""Variables that take effect when Python starts, or when numpy or pyarrow is imported. Spark sets ``PYTHONHASHSEED``
and ``OMP_NUM_THREADS`` for its workers, and users can set any of them for executors.
"""


def serve(path: str, modules: Sequence[str] = ()) -> None:
    """Fork a server that listens on the socket ``path`` as long as this process, or a fork of this process, is alive.

    Does nothing if the server can't listen on ``path``, for example because another server already does. Without a
    server, each process does its own imports.

    Args:
        modules: the modules that the server imports while nobody is waiting for a process, so that processes forked
            later needn't import them.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(path)
        listener.listen(_WAITING)
    except OSError:
        listener.close()
        return
    gone, held = os.pipe()  # ``held`` stays open in this process and in all of its forks
    if os.fork():
        listener.close()
        os.close(gone)
        return
    try:
        os.close(held)
        _serve(listener, gone, modules)
    finally:
        os._exit(0)


def _serve(listener: socket.socket, gone: int, modules: Sequence[str]) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1):  # these streams connect Spark and its daemon
        os.dup2(nothing, stream)
    os.close(nothing)
    left = [*modules]
    while gone not in (ready := select.select([listener.fileno(), gone], [], [], 0 if left else None)[0]):
        if not ready:
            try:
                importlib.import_module(left.pop(0))
            except Exception:  # a process that needs the module will raise the error again
                traceback.print_exc()
            sys.stdout.flush()  # otherwise each fork would print again what the module has printed
            gc.collect()
            gc.freeze()  # see worker_daemon.py
            continue
        client, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            os.close(gone)
            _become(client)
        client.close()


def _become(client: socket.socket) -> None:
    """Do the work that the client was started for, and exit."""
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.register_at_fork(after_in_child=client.close)
        random_numbers.seed()
        words = _taken_over(client)
        if words is None:
            os._exit(code)
        threading.Thread(target=_end_with, args=(client,), daemon=True).start()
        client.sendall(b"1")
        sys.argv = words[1:]
        warnings.filterwarnings("ignore", ".* found in sys.modules", RuntimeWarning)  # a fork has its modules already
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as exiting:
        code = exiting.code if isinstance(exiting.code, int) else int(exiting.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
            client.sendall(bytes([code & 255]))
        finally:
            os._exit(code)


def _taken_over(client: socket.socket) -> list[str] | None:
    """Take over the client's standard streams, working folder and environment, and return the client's arguments for
    Python.

    Returns None, and takes over nothing, if variables that match :data:`_AT_START` differ between the client's
    environment and this process's environment. In this process, a change to these variables would come too late to take
    effect.
    """
    size, streams, _, _ = socket.recv_fds(client, 4, _STREAMS)
    with client.makefile("rb") as told:
        folder, number, *rest = told.read(int.from_bytes(size, "big")).split(b"\0")
    given = {name: value for name, _, value in (item.partition(b"=") for item in rest[int(number) :])}
    if _at_start(given) != _at_start(os.environb):
        return None
    for to, stream in enumerate(streams):
        os.dup2(stream, to)
        os.close(stream)
    os.chdir(folder)
    os.environb.clear()
    os.environb.update(given)
    known = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [each for each in known if each and each not in sys.path]
    worker_path.drop_archives()
    return [os.fsdecode(word) for word in rest[: int(number)]]


def _at_start(variables: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    return {name: value for name, value in variables.items() if _AT_START.fullmatch(name)}


def _end_with(client: socket.socket) -> None:
    """Wait until the client has exited, then send this process SIGTERM. (A daemon that gets SIGTERM also ends its
    workers.) When the client exits, the connection to it is closed. If the client was killed, the connection may be
    reset instead.
    """
    with suppress(OSError):
        client.recv(1)
    os.kill(os.getpid(), signal.SIGTERM)
