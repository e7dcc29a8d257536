"""Who may ask a coordinator: whoever brings its token."""

from __future__ import annotations

import hmac

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from anabranch import logs

__all__ = ["TokenRequired"]

_SHORT = 200
log = logs.get_logger()


class TokenRequired:
    """Lets requests in that bring the token as ``Authorization: Bearer``, and those for ``/healthz``."""

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
