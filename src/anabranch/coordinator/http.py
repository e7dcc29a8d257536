"""The coordinator over HTTP: its routes, and listening on a loopback port in a thread."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import math
import socket
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, ThreadPoolExecutor
from importlib import metadata
from typing import Any, Protocol, TypeVar

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from anabranch import logs
from anabranch.coordinator.openapi import Operation, described
from anabranch.coordinator.service import Coordinator
from anabranch.coordinator.wire import SERVICE, payload_of, status_of
from anabranch.errors import AnabranchError, ConflictError, UsageError
from anabranch.job_code.artifact import MAX_BYTES
from anabranch.messages import (
    Answer,
    Assigning,
    Assignment,
    Deployed,
    Deploying,
    Drained,
    DrainNotification,
    Expanding,
    Heartbeat,
    JobStatus,
    Registered,
    Registration,
    Rewinding,
    Rewound,
    RollingBack,
    Running,
    Scaled,
    Scaling,
    Sizing,
    Start,
)
from anabranch.metrics import CONTENT_TYPE, exposition
from anabranch.model.document import Document, compact, decode
from anabranch.model.job_model import JobModel

__all__ = ["Alone", "Desk", "Server", "app", "listen", "serve"]

_BEATS = 8
"""So many beats that bring news are heard side by side; the others take no thread."""
_LOOPBACK = "127.0.0.1"
_MOST_BYTES = 16_000_000  # a beat of 1,000 positions has some hundred thousand
_MOST_OF_A_PLAN = 100_000_000  # one of 1,000 containers has some thirty million
_STARTED_WITHIN = 10.0
_HEARD_WITHIN = 0.08  # seconds; verbs that wait ask every 0.05
_KEPT_ALIVE = 60  # seconds; longer than containers are silent
_SHORT = 200

T = TypeVar("T")
log = logs.get_logger()
_CLOSE = {"Connection": "close"}  # uvicorn does so when a route breaks, without saying it


class Desk(Protocol):
    """Who takes what changes something: a coordinator that always leads, or one among several."""

    @property
    def leads(self) -> bool:
        """Whether it leads now. Takes no time."""
        ...

    def check(self) -> None:
        """Raises NotLeadingError if it doesn't lead now."""
        ...

    def start(self, start: Start) -> int: ...

    def resume(self, job: str) -> int: ...


class Alone:
    """The desk of a coordinator that is the only one on its store."""

    leads = True

    def __init__(self, coordinator: Coordinator) -> None:
        self.start = coordinator.start
        self.resume = coordinator.resume

    def check(self) -> None:
        """It always leads."""


def app(coordinator: Coordinator, desk: Desk | None = None, token: str | None = None) -> Starlette:
    """The routes of a coordinator. Errors are ``{"error", "cure", "kind"}``, status 400, 401, 404, 409, 413, 500
    or 503.

    Args:
        desk: default: :class:`Alone`.
        token: what every request but ``/healthz`` must bring as ``Authorization: Bearer``; None: nothing.
    """
    beats = ThreadPoolExecutor(_BEATS, "anabranch-beat")
    seats = ThreadPoolExecutor(1, "anabranch-seat")  # many that come at once must not keep the others from beating
    leader = Alone(coordinator) if desk is None else desk

    async def led(pool: Executor | None, act: Callable[..., T], *args: Any) -> T:
        """What only a leader may do, or say: it must lead before and after."""

        def acted() -> T:
            leader.check()
            done = act(*args)
            leader.check()
            return done

        return await asyncio.get_running_loop().run_in_executor(pool, acted)

    async def told(act: Callable[..., Document], *args: Any) -> Response:
        return _json(await run_in_threadpool(lambda: compact(act(*args))))

    async def listed(name: str, act: Callable[..., Iterable[Document]], *args: Any) -> Response:
        found = await run_in_threadpool(lambda: b",".join(map(compact, act(*args))))
        return _json(b'{"%b":[%b]}' % (name.encode(), found))

    async def healthz(request: Request) -> Response:
        return JSONResponse({"service": SERVICE, "status": "ok"})

    async def jobs(request: Request) -> Response:
        return await listed("jobs", coordinator.jobs)

    async def start(request: Request) -> Response:
        plan = decode(await _body(request, _MOST_OF_A_PLAN), Start)
        if plan.program is None:
            raise UsageError("the plan has no program", "start the job with anabranch start")
        return JSONResponse({"deployment": await led(None, leader.start, plan)})

    async def resume(request: Request) -> Response:
        return JSONResponse({"deployment": await led(None, leader.resume, request.path_params["job"])})

    async def job(request: Request) -> Response:
        return await told(coordinator.status, request.path_params["job"])

    async def model(request: Request) -> Response:
        return await told(coordinator.model, request.path_params["job"])

    async def running(request: Request) -> Response:
        return await told(coordinator.running, request.path_params["job"])

    async def lanes(request: Request) -> Response:
        return await listed("lanes", lambda job: coordinator.known_lanes(job).values(), request.path_params["job"])

    async def events(request: Request) -> Response:
        limit = _number(request, "limit", 100)
        return await listed("events", coordinator.events, request.path_params["job"], int(limit))

    async def stop(request: Request) -> Response:
        at_once = _number(request, "now", 0.0) > 0
        await led(None, coordinator.stop, request.path_params["job"], at_once)
        return JSONResponse({})

    async def scale(request: Request) -> Response:
        wish = decode(await _body(request), Scaling)
        return _json(compact(await led(None, coordinator.wishes.scale, request.path_params["job"], wish)))

    async def rewind(request: Request) -> Response:
        wish = decode(await _body(request), Rewinding)
        return _json(compact(await led(None, coordinator.wishes.rewind, request.path_params["job"], wish)))

    async def expand(request: Request) -> Response:
        wish = decode(await _body(request), Expanding)
        return _json(compact(await led(None, coordinator.wishes.expand, request.path_params["job"], wish)))

    async def assign(request: Request) -> Response:
        wish = decode(await _body(request), Assigning)
        return _json(compact(await led(None, coordinator.wishes.assign, request.path_params["job"], wish)))

    async def assignment(request: Request) -> Response:
        return await told(coordinator.wishes.assignment, request.path_params["job"])

    async def deploy(request: Request) -> Response:
        wish = decode(await _body(request, _MOST_OF_A_PLAN), Deploying)
        return _json(compact(await led(None, coordinator.deployments.deploy, request.path_params["job"], wish)))

    async def rollback(request: Request) -> Response:
        wish = decode(await _body(request), RollingBack)
        return _json(compact(await led(None, coordinator.deployments.rollback, request.path_params["job"], wish)))

    async def drain(request: Request) -> Response:
        said = decode(await _body(request), DrainNotification)
        return _json(compact(await led(None, coordinator.wishes.drain, request.path_params["job"], said)))

    async def sizing(request: Request) -> Response:
        return await told(coordinator.wishes.sizing, request.path_params["job"])

    async def cancel(request: Request) -> Response:
        await led(None, coordinator.wishes.cancel, request.path_params["job"])
        return JSONResponse({})

    async def put_artifact(request: Request) -> Response:
        content = await _body(request, MAX_BYTES)
        await led(None, coordinator.put_artifact, request.path_params["sha256"], content)
        return JSONResponse({})

    async def artifact(request: Request) -> Response:
        content = await run_in_threadpool(coordinator.artifact, request.path_params["sha256"])
        return Response(content, media_type="application/zip")

    async def register(request: Request) -> Response:
        registration = decode(await _body(request), Registration)
        return _json(compact(await led(seats, coordinator.register, registration)))

    async def heartbeat(request: Request) -> Response:
        beat, wait = decode(await _body(request), Heartbeat), _number(request, "wait", 0.0)
        if beat.container != request.path_params["container"]:
            raise UsageError("the beat is of another container than its path", "send it to its own path")
        news = _News()
        with coordinator.listening(beat, news.come):
            answer = coordinator.hear_at_once(beat) if leader.leads else None
            if answer is None:
                answer = await led(beats, coordinator.hear, beat)
            if answer.same and wait and await news.within(coordinator.patience(wait)):
                answer = await led(beats, coordinator.answer, beat)
        if not leader.leads:
            await led(beats, leader.check)
        return _json(compact(answer))

    async def fence(request: Request) -> Response:
        why = request.query_params.get("why", "")[:_SHORT]
        await led(None, coordinator.fence, request.path_params["container"], why)
        return JSONResponse({})

    async def container_heartbeat(request: Request) -> Response:
        execution = request.query_params.get("executionContainerId", "")
        if not execution:
            raise UsageError(
                "executionContainerId is missing",
                "ask with ?executionContainerId=$EXECUTION_ENV_CONTAINER_ID",
            )
        return JSONResponse({"alive": await led(None, coordinator.holds_seat, execution)})

    async def metrics(request: Request) -> Response:
        found = await run_in_threadpool(coordinator.jobs)
        text = exposition(found, coordinator.invalid_heartbeats, leader.leads)
        return Response(text, headers={"Content-Type": CONTENT_TYPE})

    async def openapi(request: Request) -> Response:
        return JSONResponse(described(operations, metadata.version("anabranch")))

    operations = [
        Operation("GET", "/healthz", "Whether it listens", healthz),
        Operation("GET", "/openapi.json", "This description", openapi),
        Operation("GET", "/metrics", "For Prometheus, in its text format", metrics),
        Operation("GET", "/jobs", "All jobs", jobs),
        Operation("POST", "/jobs", "Start a planned job", start, takes=Start),
        Operation("GET", "/jobs/{job}", "A job as it is now", job, gives=JobStatus),
        Operation("GET", "/jobs/{job}/model", "The job model", model, gives=JobModel),
        Operation("GET", "/jobs/{job}/running", "What containers need to run it", running, gives=Running),
        Operation("GET", "/jobs/{job}/lanes", "All lanes that it ever had", lanes),
        Operation("GET", "/jobs/{job}/events", "What happened to it", events, query=(("limit", "integer"),)),
        Operation("POST", "/jobs/{job}/start", "Go on with its last deployment", resume),
        Operation(
            "POST", "/jobs/{job}/stop", "Stop it at a batch boundary; now=1: at once", stop, query=(("now", "integer"),)
        ),
        Operation(
            "POST",
            "/jobs/{job}/scale",
            "Give it another factor or number of containers; 409 while it is being changed",
            scale,
            takes=Scaling,
            gives=Scaled,
        ),
        Operation(
            "POST",
            "/jobs/{job}/rewind",
            "Let it read its source streams again; 409 while it is being changed",
            rewind,
            takes=Rewinding,
            gives=Rewound,
        ),
        Operation(
            "POST",
            "/jobs/{job}/expand",
            "Let it go along with its inputs, whose partitions have become more; 409 while it is being changed",
            expand,
            takes=Expanding,
            gives=Scaled,
        ),
        Operation(
            "POST",
            "/jobs/{job}/assign",
            "Let its tasks go where they should be by racks; 409 while it is being changed",
            assign,
            takes=Assigning,
            gives=Scaled,
        ),
        Operation(
            "GET", "/jobs/{job}/assignment", "Where its tasks are, should be, and why", assignment, gives=Assignment
        ),
        Operation(
            "POST",
            "/jobs/{job}/deploy",
            "Let another version follow on its state and positions; 409 if that can't be, or while it is being changed",
            deploy,
            takes=Deploying,
            gives=Deployed,
        ),
        Operation(
            "POST",
            "/jobs/{job}/rollback",
            "Let the version before the present one follow it; 409 as for deploy",
            rollback,
            takes=RollingBack,
            gives=Deployed,
        ),
        Operation(
            "POST",
            "/jobs/{job}/drain",
            "Let it finish what it has taken in, with all windows, and end; 409 while it is being changed",
            drain,
            takes=DrainNotification,
            gives=Drained,
        ),
        Operation("GET", "/jobs/{job}/sizing", "How its lanes cope, for an autosizer", sizing, gives=Sizing),
        Operation(
            "POST", "/jobs/{job}/cancel", "Let it go back from the change or the drain that is under way", cancel
        ),
        Operation("GET", "/artifacts/{sha256}", "The code of a job", artifact, gives=bytes),
        Operation("PUT", "/artifacts/{sha256}", "Keep the code of a job", put_artifact, takes=bytes),
        Operation("POST", "/containers", "Take a seat", register, takes=Registration, gives=Registered),
        Operation(
            "POST",
            "/containers/{container}/heartbeat",
            "Say how lanes are, and hear what should run; waits so many seconds for news",
            heartbeat,
            takes=Heartbeat,
            gives=Answer,
            query=(("wait", "number"),),
        ),
        Operation(
            "POST",
            "/containers/{container}/fence",
            "Take its seat away",
            fence,
            query=(("why", "string"),),
        ),
        Operation(
            "GET",
            "/containerHeartbeat",
            "Whether a process has a seat, by its EXECUTION_ENV_CONTAINER_ID",
            container_heartbeat,
            query=(("executionContainerId", "string"),),
        ),
    ]
    return Starlette(
        routes=[Route(each.path, each.endpoint, methods=[each.method]) for each in operations],
        middleware=[] if token is None else [Middleware(_Guarded, token=token)],
        exception_handlers={AnabranchError: _refused, HTTPException: _no_route, Exception: _broken},
    )


class _News:
    """Something that a request on the event loop waits for, and that any thread may tell."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._come = asyncio.Event()

    def come(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended, and nobody waits
            self._loop.call_soon_threadsafe(self._come.set)

    async def within(self, seconds: float) -> bool:
        """Whether it has come, after at most so many seconds."""
        try:
            async with asyncio.timeout(seconds):
                return await self._come.wait()
        except TimeoutError:
            return False


class _Guarded:
    """Lets a request in that brings the token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._wanted = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        brought = dict(scope.get("headers", [])).get(b"authorization", b"")
        if scope["type"] != "http" or scope["path"] == "/healthz" or hmac.compare_digest(brought, self._wanted):
            await self._app(scope, receive, send)
            return
        path, client = scope["path"][:_SHORT], scope.get("client")
        host = None if client is None else client[0]
        why = "without the token"
        log.warning("refused", method=scope["method"], path=path, status=401, client=host, why=why)
        what = {"error": "the token is missing or wrong", "cure": "set [coordinator] token", "kind": "AnabranchError"}
        await JSONResponse(what, 401, {"WWW-Authenticate": "Bearer"})(scope, receive, send)


def _json(raw: bytes) -> Response:
    return Response(raw, media_type="application/json")


async def _body(request: Request, most: int = _MOST_BYTES) -> bytes:
    """What a request brings; HTTPException 413 when that is too much."""
    read = bytearray()
    async for piece in request.stream():
        read += piece
        if len(read) > most:
            raise HTTPException(413, f"more than {most} bytes")
    return bytes(read)


class Server:
    """A coordinator that listens. ``end`` lets it refuse new requests, soon, so that those who ask again and again hear
    how a job has ended, and gives those under way a second; ``close`` waits for that."""

    def __init__(self, routes: Starlette, listener: socket.socket) -> None:
        host, self.port = listener.getsockname()[:2]
        self.url = f"http://{host}:{self.port}"
        self._listener = listener
        self._server = uvicorn.Server(
            uvicorn.Config(
                routes,
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

    def end(self) -> None:
        ending = threading.Timer(_HEARD_WITHIN, self._refuse)
        ending.daemon = True
        ending.start()

    def close(self) -> None:
        self._refuse()
        self._thread.join(_STARTED_WITHIN)
        self._listener.close()

    def _refuse(self) -> None:
        self._server.should_exit = True


def listen(host: str = _LOOPBACK, port: int = 0) -> socket.socket:
    """A socket that listens; port 0 is any free one. ConflictError when it can't."""
    # asyncio looks for this protocol before it lets small answers go without waiting for others.
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


def serve(coordinator: Coordinator, port: int = 0) -> Server:
    """Serve the only coordinator of a store on 127.0.0.1; port 0 is any free one. ConflictError: the port is taken."""
    return Server(app(coordinator), listen(port=port))


def _number(request: Request, name: str, default: float) -> float:
    text = request.query_params.get(name, str(default))
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise UsageError(f"{name} is {text[:40]!r}", "give a number that isn't negative")
    return number


def _log(request: Request, status: int, why: str) -> None:
    path, host = request.url.path[:_SHORT], None if request.client is None else request.client.host
    log.warning("refused", method=request.method, path=path, status=status, client=host, why=why[:_SHORT])


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, AnabranchError)
    _log(request, status_of(error), error.what)
    return JSONResponse(payload_of(error), status_of(error))


async def _no_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    _log(request, error.status_code, str(error.detail))
    what = f"{request.method} {request.url.path}: {error.detail}"
    return JSONResponse({"error": what, "cure": "", "kind": "AnabranchError"}, error.status_code)


async def _broken(request: Request, error: Exception) -> Response:
    log.exception("a request failed", method=request.method, path=request.url.path[:_SHORT])
    what = f"the coordinator failed: {type(error).__name__}: {error}"
    return JSONResponse({"error": what, "cure": "see its log", "kind": "AnabranchError"}, 500, _CLOSE)
