"""Forks the Python processes that Spark starts for sources.

Spark starts one process for each Python source of a query, without a daemon. Each of these processes would spend 0.3 s
on imports, and would use a core that batches of other lanes need at the same time. See :mod:`source_client`.
"""

from __future__ import annotations

import os
import runpy
import select
import signal
import socket
import sys
import threading
import traceback
from contextlib import suppress

__all__ = ["serve"]

_WAITING = 64
_STREAMS = 3


def serve(path: str) -> None:
    """Fork a server that listens at this path as long as this process, or a fork of this process, is alive.

    Does nothing if the server can't listen at this path, for example because another server already does. If there is
    no server at all, the processes of sources do their own imports.
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
        _serve(listener, gone)
    finally:
        os._exit(0)


def _serve(listener: socket.socket, gone: int) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1):  # these streams connect Spark and its daemon
        os.dup2(nothing, stream)
    os.close(nothing)
    while gone not in select.select([listener.fileno(), gone], [], [])[0]:
        client, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            os.close(gone)
            _become(client)
        client.close()


def _become(client: socket.socket) -> None:
    """Do the work for which the client was started, and exit."""
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        words = _taken_over(client)
        threading.Thread(target=_end_with, args=(client,), daemon=True).start()
        client.sendall(b"1")
        sys.argv = words[1:]
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


def _taken_over(client: socket.socket) -> list[str]:
    """Take over the client's streams, folder and environment, and return the client's arguments."""
    size, streams, _, _ = socket.recv_fds(client, 4, _STREAMS)
    with client.makefile("rb") as told:
        folder, number, *rest = told.read(int.from_bytes(size, "big")).split(b"\0")
    for to, stream in enumerate(streams):
        os.dup2(stream, to)
        os.close(stream)
    os.chdir(folder)
    os.environb.clear()
    os.environb.update({name: value for name, _, value in (item.partition(b"=") for item in rest[int(number) :])})
    known = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [each for each in known if each and each not in sys.path]
    return [os.fsdecode(word) for word in rest[: int(number)]]


def _end_with(client: socket.socket) -> None:
    """Exit when the connection to the client ends, which means that the client has ended. (If a client is killed before
    it has read everything that was sent to it, the connection is reset.)
    """
    with suppress(OSError):
        client.recv(1)
    os._exit(1)
