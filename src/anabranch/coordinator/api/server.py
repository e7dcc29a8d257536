"""The coordinator's HTTP server, with routes from the table of operations."""

from __future__ import annotations

import asyncio
import contextlib
import math
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from importlib import metadata
from typing import Any, Protocol, TypeVar, get_origin

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from anabranch import logs
from anabranch.coordinator.api.arguments import arguments_of
from anabranch.coordinator.api.asking import Asking
from anabranch.coordinator.api.audit import AuditTrail
from anabranch.coordinator.api.auth import Access, Tokens
from anabranch.coordinator.api.browsers import Names
from anabranch.coordinator.api.dashboard import Dashboard
from anabranch.coordinator.api.openapi import described
from anabranch.coordinator.api.operation import STANDS_BY, Operation
from anabranch.coordinator.api.operations import OPERATIONS, Operations
from anabranch.coordinator.api.representation import Representation, ResponseCache, knows, respond, tagged
from anabranch.coordinator.coordinator import MOST_WAIT, Coordinator
from anabranch.errors import AnabranchError, NotFoundError, UsageError
from anabranch.metrics import CONTENT_TYPE, exposition
from anabranch.model.document import Document, compact
from anabranch.protocol.deployment import StartRequest
from anabranch.protocol.errors import SERVICE, payload_of, status_of

__all__ = ["AlwaysLeads", "Leader", "app"]

_HEARTBEATS = 8
"""How many heartbeats may be processed in threads at the same time. Most heartbeats need no thread."""
_SHORT = 200
_KEPT_EVENTS = 1_000
"""Answers to requests for more events than this aren't reused for other clients."""
_LOOK_AGAIN = 2.0
"""How often, in seconds, a waiting request for events checks whether other processes have stored events."""

T = TypeVar("T")
Endpoint = Callable[[Request], Awaitable[Response]]
log = logs.get_logger()
_CLOSE = {"Connection": "close"}  # if a route raises an error, uvicorn closes the connection without announcing it


class Leader(Protocol):
    """Knows whether a coordinator leads, and starts jobs on the leading coordinator."""

    @property
    def leads(self) -> bool:
        """Whether the coordinator leads now. Doesn't wait for the store."""
        ...

    def check(self) -> None:
        """Raises NotLeadingError if the coordinator doesn't lead now."""
        ...

    def start(self, plan: StartRequest, /) -> int: ...

    def resume(self, job: str, /) -> int: ...


class AlwaysLeads:
    """The :class:`Leader` for a store's only coordinator."""

    leads = True

    def __init__(self, coordinator: Coordinator) -> None:
        self.start = coordinator.start
        self.resume = coordinator.resume

    def check(self) -> None:
        """Does nothing: the coordinator always leads."""


def app(
    coordinator: Coordinator,
    leader: Leader | None = None,
    token: str | None = None,
    *,
    read_token: str | None = None,
    hosts: Iterable[str] = (),
    trail: AuditTrail | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Starlette:
    """The HTTP application of a coordinator. If a request fails, the answer has status 400, 401, 403, 404, 405, 408,
    409, 413, 415, 429, 500 or 503. The content of such an answer is ``{"error", "cure", "kind"}``, unless one of the
    dashboard's files was requested.

    Args:
        leader: knows whether the coordinator leads; None if the coordinator always leads.
        token: the ``Authorization: Bearer`` token that suffices for all requests; None if no request needs a token.
            Requests for ``/healthz`` and for the dashboard's files never need one.
        read_token: a token that suffices for operations with ``private=False``.
        hosts: names by which requests may address the coordinator, in addition to loopback names and the address at
            which a request arrives.
        trail: where requests are recorded; None if they aren't recorded.
        clock: returns the current time in seconds, for answers that are reused for a limited time.
    """
    endpoints = _Endpoints(coordinator, AlwaysLeads(coordinator) if leader is None else leader, ResponseCache(clock))
    tokens, names = Tokens(token, read_token), Names.of(hosts)
    access = Middleware(Access, tokens=tokens, names=names, operations=OPERATIONS, trail=trail)
    return Starlette(
        routes=[Route(each.path, endpoints.of(each), methods=[each.method]) for each in OPERATIONS],
        middleware=[Middleware(Dashboard), access],
        exception_handlers={AnabranchError: _refused, HTTPException: _no_route, Exception: _broken},
    )


class _Endpoints:
    """Carries out each operation with a method of the coordinator, of the leader or of this class."""

    def __init__(self, coordinator: Coordinator, leader: Leader, kept: ResponseCache) -> None:
        self._coordinator = coordinator
        self._leader = leader
        self._heartbeats = ThreadPoolExecutor(_HEARTBEATS, "anabranch-beat")
        # Registrations have a separate pool, so that many registrations at once don't delay heartbeats.
        self._registrations = ThreadPoolExecutor(1, "anabranch-seat")
        self._asking = Asking()
        self._own: Mapping[str, Endpoint] = {
            "healthz": self._healthz,
            "openapi": self._openapi,
            "metrics": self._metrics,
            "start": self._start,
            "heartbeat": self._heartbeat,
            "events": self._events,
        }
        self._kept = kept
        # The ETag of a generation is made without the content, so it must differ between coordinator processes.
        self._instance = secrets.token_hex(4)

    def of(self, operation: Operation[..., Any]) -> Endpoint:
        """The endpoint of an operation. Some operations don't require a leading coordinator. If the coordinator
        carries out such an operation without leading, a response header says that it doesn't lead."""
        answered = self._carrying_out(operation)

        async def endpoint(request: Request) -> Response:
            try:
                answer = await answered(request)
            except AnabranchError as error:
                answer = await _refused(request, error)
            if not self._leader.leads:
                answer.headers[STANDS_BY] = "yes"
            return answer

        return answered if operation.by_leader else endpoint

    def _carrying_out(self, operation: Operation[..., Any]) -> Endpoint:
        if operation.name in self._own:
            return self._own[operation.name]
        carry_out = self._method(operation.name)
        pool = self._registrations if operation.name == "register" else None
        media_type = "application/zip" if operation.result is bytes else "application/json"

        async def endpoint(request: Request) -> Response:
            arguments = await arguments_of(operation, request)

            def carried_out() -> bytes:
                return _content(operation, carry_out(*arguments))

            if operation.asks_systems:
                acted = self._as_leader(carried_out) if operation.by_leader else carried_out
                answer = await self._asking.run(request.path_params["job"], acted, changes=operation.changes)
            elif operation.by_leader:
                answer = await self._led(pool, carried_out)
            else:
                answer = await run_in_threadpool(carried_out)
            if operation.changes:
                return Response(answer, media_type=media_type)
            return await respond(request, tagged(answer, media_type))

        return self._cached(operation, carry_out) if operation.by_generation or operation.fresh_for else endpoint

    def _cached(self, operation: Operation[..., Any], carry_out: Callable[..., Any]) -> Endpoint:
        """The endpoint of an operation whose answer is reused for identical requests, as long as the job has the same
        generation, or for ``fresh_for`` seconds."""

        async def endpoint(request: Request) -> Response:
            arguments = await arguments_of(operation, request)
            key = etag = ""
            if operation.by_generation:
                key = await run_in_threadpool(self._coordinator.reads.generation_tag, request.path_params["job"])
                etag = f'"{self._instance}-{key}"'
                if knows(request, etag):
                    return await respond(request, Representation(b"", "application/json", etag))

            async def build() -> Representation:
                content = await run_in_threadpool(lambda: _content(operation, carry_out(*arguments)))
                return tagged(content, "application/json", etag)

            asked = f"{operation.name} {arguments}"
            return await respond(request, await self._kept.get(asked, key, operation.fresh_for or math.inf, build))

        return endpoint

    def _method(self, name: str) -> Callable[..., Any]:
        if name == "resume":
            return self._leader.resume

        def method(*arguments: Any) -> Any:
            return getattr(self._coordinator, name)(*arguments)

        return method

    async def _led(self, pool: Executor | None, act: Callable[..., T], *args: Any) -> T:
        """Carry out an operation, and check, both before and afterwards, that the coordinator leads."""
        return await asyncio.get_running_loop().run_in_executor(pool, self._as_leader(act, *args))

    def _as_leader(self, act: Callable[..., T], *args: Any) -> Callable[[], T]:
        def acted() -> T:
            self._leader.check()
            done = act(*args)
            self._leader.check()
            return done

        return acted

    async def _healthz(self, request: Request) -> Response:
        return JSONResponse({"service": SERVICE, "status": "ok"})

    async def _openapi(self, request: Request) -> Response:
        return JSONResponse(described(OPERATIONS, metadata.version("anabranch")))

    async def _metrics(self, request: Request) -> Response:
        found = await run_in_threadpool(self._coordinator.jobs)
        text = exposition(found, self._coordinator.membership.invalid_heartbeats, self._leader.leads)
        return Response(text, headers={"Content-Type": CONTENT_TYPE})

    async def _start(self, request: Request) -> Response:
        (plan,) = await arguments_of(Operations.start, request)
        if plan.program is None:
            raise UsageError("the plan has no program", "start the job with anabranch start")
        number = await self._led(None, self._leader.start, plan)
        return Response(_content(Operations.start, number), media_type="application/json")

    async def _events(self, request: Request) -> Response:
        """Answer a request for events. While the request waits, it occupies no thread."""
        operation = Operations.events
        arguments = dict(zip(operation.signature.parameters, await arguments_of(operation, request), strict=True))
        wait = min(arguments.pop("wait"), MOST_WAIT)
        if not wait and arguments["limit"] <= _KEPT_EVENTS:
            # Pages repeat the same request again and again, so the answer is reused until there is a new event.
            last = await run_in_threadpool(self._coordinator.reads.last_event, arguments["job"])

            async def build() -> Representation:
                content = await run_in_threadpool(lambda: _content(operation, self._coordinator.events(**arguments)))
                return tagged(content, "application/json")

            return await respond(request, await self._kept.get(f"events {arguments}", str(last), math.inf, build))
        news, clock = _News(), asyncio.get_running_loop().time
        end = clock() + wait
        with self._coordinator.reads.listening(news.come):
            found = await run_in_threadpool(lambda: self._coordinator.events(**arguments))
            while not found and (left := end - clock()) > 0:
                await news.within(min(left, _LOOK_AGAIN))  # events that other processes store aren't announced
                news.forget()
                found = await run_in_threadpool(lambda: self._coordinator.events(**arguments))
        return await respond(request, tagged(_content(operation, found), "application/json"))

    async def _heartbeat(self, request: Request) -> Response:
        """Answer a heartbeat. Most heartbeats are processed on the event loop. While a heartbeat waits for new
        orders, it occupies no thread. Raises UsageError if the heartbeat and the URL name different containers.
        """
        beat, wait = await arguments_of(Operations.heartbeat, request)
        if beat.container != request.path_params["container"]:
            raise UsageError("the heartbeat names another container than its URL", "send it to that container's URL")
        news, membership, leader = _News(), self._coordinator.membership, self._leader
        with membership.listening(beat, news.come):
            answer = membership.hear_at_once(beat) if leader.leads else None
            if answer is None:
                answer = await self._led(self._heartbeats, membership.hear, beat)
            if answer.same and wait and await news.within(membership.patience(wait)):
                answer = await self._led(self._heartbeats, membership.answer, beat)
        if not leader.leads:
            await self._led(self._heartbeats, leader.check)
        return Response(compact(answer), media_type="application/json")


class _News:
    """Lets a request on the event loop wait for news, which any thread can announce with :meth:`come`."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._come = asyncio.Event()

    def come(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended, so no request is waiting
            self._loop.call_soon_threadsafe(self._come.set)

    def forget(self) -> None:
        """Forget the news so far, so that :meth:`within` waits for later news."""
        self._come.clear()

    async def within(self, seconds: float) -> bool:
        """Wait at most ``seconds`` for news. Returns whether there was any news."""
        try:
            async with asyncio.timeout(seconds):
                return await self._come.wait()
        except TimeoutError:
            return False


def _content(operation: Operation[..., Any], result: Any) -> bytes:
    if isinstance(result, bytes):
        return result
    if isinstance(result, Document):
        return compact(result)
    if get_origin(operation.result) is not None:
        several = result.values() if isinstance(result, dict) else result
        return b'{"%b":[%b]}' % (operation.field.encode(), b",".join(map(compact, several)))
    return bytes(JSONResponse({operation.field: result} if operation.field else {}).body)


def _log(request: Request, status: int, why: str) -> None:
    path, host = request.url.path[:_SHORT], None if request.client is None else request.client.host
    log.warning("refused", method=request.method, path=path, status=status, client=host, why=why[:_SHORT])


async def _refused(request: Request, error: Exception) -> Response:
    """The response to a request that can't be fulfilled. A GET for something that doesn't exist isn't logged, because
    such requests are normal: ``anabranch start`` sends one to find out whether a job is new."""
    assert isinstance(error, AnabranchError)
    if request.method != "GET" or not isinstance(error, NotFoundError):
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
