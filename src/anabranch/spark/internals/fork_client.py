"""A Python process that Spark starts. A fork of :mod:`fork_server` does the work for this process.

Spark runs this file as a script, which starts in 0.02 s because it imports only a part of the standard library::

    fork_client.py SOCKET -m MODULE ...

The fork gets this process's standard streams, working folder and environment. When either of the two processes ends,
the other ends as well. If no server is listening, or if a fork can't take over this process's environment, this process
does the work itself.
"""

import os
import socket
import sys

SPARKS = {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"}
"""Variables that Spark sets for its workers, but not for its other Python processes. The client sets these variables
for all Python processes that Spark starts, because a single server forks all of these processes."""


def main(path: str, words: list[str]) -> int:
    """Let a fork do the work, and return the fork's exit code. If the fork has ended without reporting an exit code,
    the result is 1. If no fork can do the work, this process becomes a Python process that does the work itself, and
    the function doesn't return.

    Args:
        path: the path of the server's socket.
        words: the arguments for Python: ``-m``, the module, and the module's arguments.
    """
    for name, value in SPARKS.items():
        os.environ.setdefault(name, value)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        try:
            server.connect(path)
            held = [b"=".join(item) for item in os.environb.items()]
            told = b"\0".join([os.getcwdb(), b"%d" % len(words), *map(os.fsencode, words), *held])
            socket.send_fds(server, [len(told).to_bytes(4, "big")], [0, 1, 2])
            server.sendall(told)
            begun = server.recv(1)
        except OSError:
            begun = b""
        if not begun:
            os.execv(sys.executable, [sys.executable, "-P", *words])
        ended = server.recv(1)
    return ended[0] if ended else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
