"""The coordinator over HTTP: its routes, and listening on a loopback port in a thread."""

from __future__ import annotations

import asyncio
import math
import socket
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from anabranch.coordinator.service import Coordinator
from anabranch.coordinator.wire import SERVICE, payload, payload_of, status_of
from anabranch.errors import AnabranchError, ConflictError, UsageError
from anabranch.messages import Heartbeat, Registration
from anabranch.model.document import decode

__all__ = ["Server", "app", "serve"]

_MOST_CONTAINERS = 1000
_HOST = "127.0.0.1"
_STARTED_WITHIN = 10.0
_KEPT_ALIVE = 60  # seconds; longer than containers are silent
_CLOSE = {"Connection": "close"}  # uvicorn does so when a route breaks, without saying it


def app(coordinator: Coordinator) -> Starlette:
    """The routes of a coordinator. Errors are ``{"error", "cure", "kind"}``, status 400, 404, 409, 500 or 503."""
    polls = ThreadPoolExecutor(_MOST_CONTAINERS, "anabranch-poll")

    async def healthz(request: Request) -> Response:
        return JSONResponse({"service": SERVICE, "status": "ok"})

    async def jobs(request: Request) -> Response:
        return JSONResponse({"jobs": [payload(job) for job in await run_in_threadpool(coordinator.jobs)]})

    async def job(request: Request) -> Response:
        return JSONResponse(payload(await run_in_threadpool(coordinator.status, request.path_params["job"])))

    async def model(request: Request) -> Response:
        return JSONResponse(payload(await run_in_threadpool(coordinator.model, request.path_params["job"])))

    async def events(request: Request) -> Response:
        limit = _number(request, "limit", 100)
        found = await run_in_threadpool(coordinator.events, request.path_params["job"], int(limit))
        return JSONResponse({"events": [payload(event) for event in found]})

    async def stop(request: Request) -> Response:
        await run_in_threadpool(coordinator.stop, request.path_params["job"])
        return JSONResponse({})

    async def register(request: Request) -> Response:
        registration = decode(await request.body(), Registration)
        return JSONResponse(payload(await run_in_threadpool(coordinator.register, registration)))

    async def heartbeat(request: Request) -> Response:
        beat, wait = decode(await request.body(), Heartbeat), _number(request, "wait", 0.0)
        if beat.container != request.path_params["container"]:
            raise UsageError("the beat is of another container than its path", "send it to its own path")
        answer = await asyncio.get_running_loop().run_in_executor(polls, coordinator.heartbeat, beat, wait)
        return JSONResponse(payload(answer))

    async def container_heartbeat(request: Request) -> Response:
        execution = request.query_params.get("executionContainerId", "")
        if not execution:
            raise UsageError(
                "executionContainerId is missing",
                "ask with ?executionContainerId=$EXECUTION_ENV_CONTAINER_ID",
            )
        return JSONResponse({"alive": await run_in_threadpool(coordinator.holds_seat, execution)})

    return Starlette(
        routes=[
            _get("/healthz", healthz),
            _get("/jobs", jobs),
            _get("/jobs/{job}", job),
            _get("/jobs/{job}/model", model),
            _get("/jobs/{job}/events", events),
            Route("/jobs/{job}/stop", stop, methods=["POST"]),
            Route("/containers", register, methods=["POST"]),
            Route("/containers/{container}/heartbeat", heartbeat, methods=["POST"]),
            _get("/containerHeartbeat", container_heartbeat),
        ],
        exception_handlers={AnabranchError: _refused, HTTPException: _no_route, Exception: _broken},
    )


class Server:
    """A coordinator that listens. ``close`` refuses new requests and gives those under way a second."""

    def __init__(self, coordinator: Coordinator, listener: socket.socket) -> None:
        self.port: int = listener.getsockname()[1]
        self.url = f"http://{_HOST}:{self.port}"
        self._listener = listener
        self._server = uvicorn.Server(
            uvicorn.Config(
                app(coordinator),
                access_log=False,
                log_config=None,
                lifespan="off",
                ws="none",
                timeout_graceful_shutdown=1,
                timeout_keep_alive=_KEPT_ALIVE,
            )
        )
        # uvicorn takes signals in a main thread only.
        self._thread = threading.Thread(target=self._server.run, args=([listener],), name="anabranch-http", daemon=True)
        self._thread.start()
        end = time.monotonic() + _STARTED_WITHIN
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > end:
                self.close()
                raise AnabranchError(f"the coordinator can't listen on {self.url}", "see its log")
            time.sleep(0.005)

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join(_STARTED_WITHIN)
        self._listener.close()


def serve(coordinator: Coordinator, port: int = 0) -> Server:
    """Listen on 127.0.0.1; port 0 is any free one. ConflictError when the port is taken."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((_HOST, port))
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise ConflictError(
            f"port {port} of {_HOST} can't be listened on: {error.strerror}", "choose another port"
        ) from error
    return Server(coordinator, listener)


def _get(path: str, endpoint: Callable[[Request], Awaitable[Response]]) -> Route:
    return Route(path, endpoint, methods=["GET"])


def _number(request: Request, name: str, default: float) -> float:
    text = request.query_params.get(name, str(default))
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise UsageError(f"{name} is {text[:40]!r}", "give a number that isn't negative")
    return number


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, AnabranchError)
    return JSONResponse(payload_of(error), status_of(error))


async def _no_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    what = f"{request.method} {request.url.path}: {error.detail}"
    return JSONResponse({"error": what, "cure": "", "kind": "AnabranchError"}, error.status_code)


async def _broken(request: Request, error: Exception) -> Response:
    what = f"the coordinator failed: {type(error).__name__}: {error}"
    return JSONResponse({"error": what, "cure": "see its log", "kind": "AnabranchError"}, 500, _CLOSE)
