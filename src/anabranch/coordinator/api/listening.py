"""Listens for HTTP requests: makes a socket, and runs uvicorn in a thread."""

from __future__ import annotations

import gc
import socket
import ssl
import sys
import threading

import uvicorn
from starlette.applications import Starlette

from anabranch.coordinator.api.audit import AuditTrail
from anabranch.coordinator.api.limits import PromptHeads
from anabranch.coordinator.api.server import app
from anabranch.coordinator.coordinator import Coordinator
from anabranch.deadlines import wait_until
from anabranch.errors import AnabranchError, ConflictError

__all__ = ["HEARD_WITHIN", "Server", "keep_prompt", "listen", "serve"]

_LOOPBACK = "127.0.0.1"
_STARTED_WITHIN = 10.0
HEARD_WITHIN = 0.08  # seconds; longer than the 0.05 s after which a waiting `anabranch drain` asks again
_SWITCH_SECONDS = 0.0005
_KEPT_ALIVE = 60  # seconds; longer than a container's pauses between requests


class Server:
    """An HTTP server for a coordinator, in its own thread. The server accepts requests as soon as it has been made."""

    def __init__(self, routes: Starlette, listener: socket.socket, tls: ssl.SSLContext | None = None) -> None:
        host, self.port = listener.getsockname()[:2]
        self.url = f"{'http' if tls is None else 'https'}://{host}:{self.port}"
        self._listener = listener
        self._server = uvicorn.Server(
            uvicorn.Config(
                routes,
                access_log=False,
                log_config=None,
                lifespan="off",
                ws="none",
                http=PromptHeads,
                ssl_context_factory=None if tls is None else lambda *_: tls,
                timeout_graceful_shutdown=1,
                timeout_keep_alive=_KEPT_ALIVE,
                proxy_headers=False,  # otherwise clients on this machine could pretend to have other addresses
            )
        )
        # In a thread other than the main one, uvicorn doesn't handle signals.
        self._thread = threading.Thread(target=self._server.run, args=([listener],), name="anabranch-http", daemon=True)
        self._thread.start()
        wait_until(self._started, _STARTED_WITHIN, self._unstarted, 0.005)

    def _started(self) -> bool | None:
        if not self._thread.is_alive():
            raise self._unstarted()
        return self._server.started or None

    def _unstarted(self) -> AnabranchError:
        self.close()
        return AnabranchError(f"the coordinator can't listen on {self.url}", "see its log")

    def end(self) -> None:
        """Keep answering for a moment, so that polling clients learn how a job ended. Then refuse new requests, and
        give running ones a second to finish. All of this happens in the background: the call returns at once.
        """
        ending = threading.Timer(HEARD_WITHIN, self._refuse)
        ending.daemon = True
        ending.start()

    def close(self) -> None:
        """Refuse new requests, and wait until the running ones have finished, but no longer than a second."""
        self._refuse()
        self._thread.join(_STARTED_WITHIN)
        self._listener.close()

    def _refuse(self) -> None:
        self._server.should_exit = True


def listen(host: str = _LOOPBACK, port: int = 0) -> socket.socket:
    """A listening socket. Port 0 means any free port. Raises ConflictError if listening there fails."""
    # asyncio sets TCP_NODELAY, which sends small answers at once, only if the socket's protocol is given as TCP.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise ConflictError(
            f"port {port} of {host} can't be listened on: {error.strerror}", "choose another port"
        ) from error
    return listener


def serve(coordinator: Coordinator, port: int = 0, token: str | None = None, trail: AuditTrail | None = None) -> Server:
    """Make a store's only coordinator listen on 127.0.0.1, and return the server. For ``port`` and errors, see
    :func:`listen`; for ``token``, see :func:`anabranch.coordinator.api.server.app`.
    """
    return Server(app(coordinator, token=token, trail=trail), listen(port=port))


def keep_prompt() -> None:
    """Set up a process in which only a coordinator runs. After this call, the coordinator answers heartbeats promptly
    even while it performs other work.

    A thread that plans a change can compute for up to a second, and each step of a heartbeat must wait until this
    thread lets others run. So threads take turns more often than by default. The garbage collector stops all threads,
    so it is set to run less often, and to ignore all objects that exist now. (Long polls need many objects, none of
    which are garbage.)
    """
    sys.setswitchinterval(_SWITCH_SECONDS)
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)
