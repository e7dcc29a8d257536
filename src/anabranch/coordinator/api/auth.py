"""Decides whether a coordinator answers a request, based on the request's head, before the body is read."""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from starlette.responses import JSONResponse
from starlette.routing import compile_path
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from anabranch import logs
from anabranch.coordinator.api import browsers
from anabranch.coordinator.api.audit import DRY, AuditedRequest, AuditTrail
from anabranch.coordinator.api.browsers import Headers, Names, Refusal
from anabranch.coordinator.api.limits import Refusals, prompt
from anabranch.coordinator.api.operation import Operation

__all__ = ["Access", "Role", "Tokens"]

_SHORT = 200
_NAME = 60
_TOO_MANY = Refusal(429, "this address was refused too often", "wait for a minute, and see why it is refused")
_NO_TOKEN = Refusal(
    401,
    "the token is missing or wrong",
    "set [coordinator] token, or token_file to the file that the coordinator makes",
)
_READS_ONLY = Refusal(403, "this token may only read", "ask with the token of [coordinator] token")
_PRIVATE = Refusal(
    403, "this token may not read settings, code or records", "ask with the token of [coordinator] token"
)
_UNKNOWN = Refusal(404, "there is no such path", "see GET /openapi.json for those that there are")
_READING = frozenset({"GET", "HEAD"})
_ROLE = b"x-anabranch-role"
log = logs.get_logger()


class Role(StrEnum):
    """What a token allows its bearer."""

    READ = "read"
    """Allows only operations with ``private=False``. The answers of these operations show the state of jobs, and the
    jobs' operators, including arguments such as SQL expressions. The answers don't show settings, code files, or
    records that jobs process.
    """

    OPERATE = "operate"
    """Allows everything."""


@dataclass(frozen=True)
class Tokens:
    """The ``Authorization: Bearer`` token of each role. If ``operate`` isn't set, all requests have the role
    ``operate``."""

    operate: str | None = None
    read: str | None = None

    def role_of(self, authorization: bytes) -> Role | None:
        """The role of a request, from its ``Authorization`` header; None if ``operate`` is set and no token matches.
        Checking a wrong token takes as long as checking a right one.
        """
        operates, reads = (_is(authorization, token) for token in (self.operate, self.read))
        if operates or self.operate is None:
            return Role.OPERATE
        return Role.READ if reads else None


class Access:
    """Refuses some requests, and passes all others on to ``app``. A request is refused for one of these reasons:

    - It comes from another site's page, addresses the coordinator by a foreign name, or has a wrong ``Content-Type``.
    - ``Tokens.operate`` is set, and the request's token is missing, is wrong, or has a role that doesn't allow the
      request. (The health check and the dashboard's files contain no data, and need no token.)

    Args:
        names: the names by which requests may address the coordinator.
        operations: all operations of the coordinator. The role ``read`` allows only those that aren't private.
        trail: where requests are recorded; None to record nothing.
    """

    def __init__(
        self,
        app: ASGIApp,
        tokens: Tokens,
        names: Names,
        operations: Sequence[Operation[..., Any]],
        trail: AuditTrail | None = None,
    ) -> None:
        self._app = app
        self._tokens = tokens
        self._names = names
        self._reads = [(compile_path(each.path)[0], each) for each in operations if each.method == "GET"]
        self._trail = trail
        self._refusals = Refusals()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers: Headers = {}
        for name, value in scope["headers"]:
            headers.setdefault(name, []).append(value)
        role = self._tokens.role_of(b",".join(headers.get(b"authorization", [])))
        refusal = self._refusal(scope, headers, role)
        if refusal is not None:
            await self._refuse(scope, headers, role, refusal, send)
            return
        send = _saying(role, send)
        if self._trail is None or not self._is_noted(scope["method"], scope["path"]):
            await self._app(scope, prompt(receive), send)
        else:
            await self._note(self._trail, scope, headers, role, prompt(receive), send)

    def _refusal(self, scope: Scope, headers: Headers, role: Role | None) -> Refusal | None:
        method, path, server = scope["method"], scope["path"], scope.get("server")
        own_address = None if server is None else server[0]
        foreign = browsers.foreign(method, path, headers, self._names, own_address, scope["scheme"])
        if foreign is not None or _is_open(method, path):
            return foreign
        if role is None:
            return _NO_TOKEN
        if role is Role.READ:
            if method not in _READING:
                return _READS_ONLY
            asked = self._asked(path)
            if asked is None or asked.private:
                return _UNKNOWN if asked is None else _PRIVATE
        return browsers.wrong_kind(method, path, headers)

    async def _refuse(self, scope: Scope, headers: Headers, role: Role | None, refusal: Refusal, send: Send) -> None:
        address = _address(scope)
        if self._refusals.are_too_many(address):
            refusal = _TOO_MANY
        why = refusal.message[:_SHORT]
        log.warning(
            "refused",
            method=scope["method"],
            path=scope["path"][:_SHORT],
            status=refusal.status,
            client=address,
            why=why,
        )
        if self._trail is not None:
            self._trail.take(_requested(scope, headers, role, refusal.status, why))
        body = {"error": refusal.message, "cure": refusal.cure, "kind": "AnabranchError"}
        # Because the body isn't read, the connection can't be used for another request.
        more = {"Connection": "close"} | ({"WWW-Authenticate": "Bearer"} if refusal.status == 401 else {})
        response = JSONResponse(body, refusal.status, more)
        await send({"type": "http.response.start", "status": refusal.status, "headers": response.raw_headers})
        await send({"type": "http.response.body", "body": response.body})

    async def _note(
        self, trail: AuditTrail, scope: Scope, headers: Headers, role: Role | None, receive: Receive, send: Send
    ) -> None:
        """Pass a request on, and record the request. A request that fails is also recorded, because it may have changed
        something."""
        noted = False

        async def noting(message: Message) -> None:
            nonlocal noted
            if message["type"] == "http.response.start":
                trail.take(_requested(scope, headers, role, message["status"]))
                noted = True
            await send(message)

        try:
            await self._app(scope, receive, noting)
        except Exception:
            if not noted:
                trail.take(_requested(scope, headers, role, 500))
            raise

    def _asked(self, path: str) -> Operation[..., Any] | None:
        return next((each for pattern, each in self._reads if pattern.match(path)), None)

    def _is_noted(self, method: str, path: str) -> bool:
        """Whether a request that isn't refused is recorded. GET and HEAD requests are recorded only if their operation
        is private. All other requests are recorded, except heartbeats and requests for seats: their effects are
        recorded as events.
        """
        if method in _READING:
            asked = self._asked(path)
            return asked is not None and asked.private
        return path != "/containers" and not path.endswith("/heartbeat")


def _saying(role: Role | None, send: Send) -> Send:
    """A ``send`` that adds a response header with the request's role, so the dashboard knows which actions to offer."""

    async def saying(message: Message) -> None:
        if message["type"] == "http.response.start" and role is not None:
            message = {**message, "headers": [*message["headers"], (_ROLE, role.value.encode())]}
        await send(message)

    return saying


def _requested(scope: Scope, headers: Headers, role: Role | None, status: int, why: str = "") -> AuditedRequest:
    name = headers.get(b"x-anabranch-who", [b""])[0].decode(errors="replace")
    return AuditedRequest(
        at=time.time(),
        who="nobody" if role is None else role.value,
        client_name="".join(letter if letter.isprintable() else "?" for letter in name[:_NAME]),
        address=_address(scope),
        method=scope["method"],
        path=scope["path"][:_SHORT],
        status=status,
        why=why,
        dry=bool(scope.get(DRY)),
    )


def _address(scope: Scope) -> str:
    client = scope.get("client")
    return "?" if client is None else str(client[0])


def _is_open(method: str, path: str) -> bool:
    return method in _READING and (path in {"/", "/healthz", "/ui"} or path.startswith("/ui/"))


def _is(authorization: bytes, token: str | None) -> bool:
    brought, wanted = (hashlib.sha256(each).digest() for each in (authorization, f"Bearer {token}".encode()))
    return hmac.compare_digest(brought, wanted) and token is not None
