"""Decides which requests from browsers a coordinator answers. A coordinator answers requests from its own page,
requests for an address that a user has entered, and requests by which a link on another page opens the coordinator's
page.

Any web page can make a visitor's browser send requests to addresses that only this browser can reach. The page can't
read the answers, but its requests would still take effect. A page that rebinds its own host name to the
coordinator's address could even read the answers.

So a request is refused if its ``Host`` isn't a name of this coordinator. A request is also refused if its ``Origin`` or
``Sec-Fetch-Site`` shows that it comes from another page. There is one exception: a link on another page may open the
coordinator's page in a tab.

A request other than GET or HEAD is also refused if its ``Content-Type`` isn't among the accepted ones (see
:func:`wrong_kind`). Before a browser sends an accepted ``Content-Type`` for another site's page, it sends a preflight
request, which is refused.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

__all__ = ["Names", "Refusal", "foreign", "wrong_kind"]

_PORTS = {"http": 80, "https": 443}
_SAFE = {"GET", "HEAD"}
_OWN_SITE = {"same-origin", "none"}  # none: the user typed the address or opened a bookmark
_BYTES = {"", "application/zip", "application/octet-stream"}
_SHORT = 100

Headers = dict[bytes, list[bytes]]


@dataclass(frozen=True)
class Refusal:
    """The refusal of a request: an HTTP status, what is wrong, and what to do about it."""

    status: int
    message: str
    cure: str


@dataclass(frozen=True)
class Names:
    """The names by which requests may address a coordinator.

    Args:
        hosts: the names that may be in ``Host``, without ports.
        origins: the names that may be in ``Origin`` although they differ from ``Host``, for example behind a proxy that
            passes on the browser's ``Origin``. A name includes the port, unless it is the default port.
    """

    hosts: frozenset[str] = frozenset()
    origins: frozenset[str] = frozenset()

    @classmethod
    def of(cls, given: Iterable[str]) -> Names:
        """Names from ``HOST``, ``HOST:PORT`` or URLs. Values of any other form are ignored."""
        found = [_split(each if "://" in each else f"//{each}") for each in given]
        known = [(host, None if port in _PORTS.values() else port) for _, host, port in filter(None, found)]
        return cls(frozenset(host for host, _ in known), frozenset(_netloc(*each) for each in known))

    def has_host(self, host: str, own_address: str | None) -> bool:
        """Whether a request that arrived at ``own_address`` may address the coordinator as ``host``. True for
        ``hosts``, for ``own_address`` itself, and for names of this machine's loopback interface."""
        return host in self.hosts or host == own_address or _is_loopback(host)


def foreign(
    method: str, path: str, headers: Headers, names: Names, own_address: str | None, scheme: str = "http"
) -> Refusal | None:
    """The refusal of a request that comes from a foreign page, or addresses the coordinator by a foreign name; None for
    any other request. The names of the ``headers`` are in lower case.
    """
    hosts = _texts(headers, b"host")
    host = _split(f"//{hosts[0]}") if len(hosts) == 1 else None
    if host is None or not names.has_host(host[1], own_address):
        called = ", ".join(hosts)[:_SHORT] or "nothing"
        return Refusal(
            403,
            f"this coordinator isn't called {called!r}",
            "ask it by a name that it has, or put the name into its [coordinator] hosts",
        )
    for origin in _texts(headers, b"origin"):
        if not _is_own(origin, host, scheme, names):
            return _foreign(f"a page of {origin[:_SHORT]}")
    sites = _texts(headers, b"sec-fetch-site")
    if any(site not in _OWN_SITE for site in sites) and not _is_link(method, path, headers):
        return _foreign("another site's page")
    return None


def _is_own(origin: str, host: tuple[str, str, int | None], scheme: str, names: Names) -> bool:
    """Whether an origin is the ``Host`` of the request, or one of the ``origins`` in ``names``. The origin may be
    ``https`` even if the coordinator speaks ``http``, because a proxy can handle TLS.
    """
    page = _split(origin)
    if page is None or page[0] not in _PORTS:
        return False
    if _netloc(page[1], page[2] if page[2] != _PORTS[page[0]] else None) in names.origins:
        return True
    if scheme == "https" and page[0] != "https":
        return False
    of_page, of_host = (each[2] or _PORTS[page[0]] for each in (page, host))
    return (page[1], of_page) == (host[1], of_host)


def _is_link(method: str, path: str, headers: Headers) -> bool:
    """Whether a request opens the coordinator's page in a tab and not in a frame. A link on another site sends such a
    request."""
    opened = _texts(headers, b"sec-fetch-mode"), _texts(headers, b"sec-fetch-dest")
    is_page = path == "/" or path.startswith("/ui/") or path == "/ui"
    return method in _SAFE and is_page and opened == (["navigate"], ["document"])


def wrong_kind(method: str, path: str, headers: Headers) -> Refusal | None:
    """The refusal of a request whose ``Content-Type`` is wrong; None if it is right, or if the request only reads. A
    request that stores an artifact must have ``application/zip``, ``application/octet-stream`` or no ``Content-Type``.
    Any other request must have ``application/json``, or neither a ``Content-Type`` nor a body.
    """
    if method in _SAFE:
        return None
    kinds = [each.partition(";")[0].strip().lower() for each in _texts(headers, b"content-type")]
    given = b"transfer-encoding" in headers or any(
        length.strip() != "0" for length in _texts(headers, b"content-length")
    )
    if method == "PUT" and path.startswith("/artifacts/"):
        fits = all(kind in _BYTES for kind in kinds)
    else:
        fits = all(kind == "application/json" for kind in kinds) and (bool(kinds) or not given)
    if fits and len(kinds) <= 1:
        return None
    shown = ", ".join(kinds)[:_SHORT] or "nothing"
    return Refusal(415, f"Content-Type is {shown!r}", "send JSON, with Content-Type: application/json")


def _foreign(who: str) -> Refusal:
    return Refusal(403, f"{who} isn't heard here", "ask from the coordinator's own page, or with anabranch")


def _texts(headers: Headers, name: bytes) -> list[str]:
    return [value.decode("latin-1").strip() for value in headers.get(name, [])]


def _split(url: str) -> tuple[str, str, int | None] | None:
    """The scheme, host and port of a URL, normalized for comparison; None if there is no host, if there are other parts
    such as a path, or if the URL can't be parsed.
    """
    try:
        found = urlsplit(url)
        host, port = found.hostname, found.port
    except ValueError:
        return None
    more = found.path not in {"", "/"} or found.query or found.fragment
    if not host or more or "@" in found.netloc or "\\" in url:
        return None
    return found.scheme, host.removesuffix("."), port


def _netloc(host: str, port: int | None) -> str:
    return host if port is None else f"{host}:{port}"


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
