"""Checks network addresses, ``HOST:PORT`` and ``http://HOST:PORT``.

Ports are checked because some resolvers take a number above 65535 modulo 65536, so a connection could go to an
unintended port.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from anabranch.config.secrets import without_login

__all__ = ["LAST_PORT", "LINKED", "check_link", "check_urls", "host_and_port"]

LAST_PORT = 65_535
LINKED = ("job", "container", "seat", "host", "pid", "rack")
"""The names that a link can contain in braces."""
_IN_BRACES = re.compile(r"\{([^{}]*)\}")
_PLACE = re.compile(r"(\[[^\]\s]+\]|[^:\[\]\s/@]+):(\d+)", re.ASCII)


def host_and_port(text: str) -> tuple[str, int]:
    """The host, without the brackets of an IPv6 address, and the port. Raises ValueError unless ``text`` is a valid
    ``HOST:PORT``."""
    found = _PLACE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} isn't of the form HOST:PORT")
    return found[1].strip("[]"), _port(text, int(found[2]))


def check_urls(text: str) -> str:
    """Return ``text`` if it is a coordinator's URL, or several URLs separated by commas; otherwise raise ValueError,
    with a message that omits the login in a URL.
    """
    for each in text.split(","):
        url = each.strip()
        shown = without_login(url)
        try:
            parts = urlsplit(url)
            known = parts.scheme in ("http", "https") and parts.hostname
            port = parts.port
        except ValueError as error:
            why = str(error) if shown == url else "its host or port is invalid"  # the error may quote the password
            raise ValueError(f"{shown!r} can't be used: {why}; give http://HOST:PORT") from None
        if not known:
            raise ValueError(f"{shown!r} isn't of the form http://HOST:PORT")
        if port is not None:
            _port(shown, port)
    return text


def check_link(text: str) -> str:
    """Return ``text`` if it is a web address in which only names from ``LINKED`` are in braces; otherwise raise
    ValueError.
    """
    rest = _IN_BRACES.sub("", text)
    unknown = next((name for name in _IN_BRACES.findall(text) if name not in LINKED), None)
    if unknown is not None:
        raise ValueError(f"{text!r} has {{{unknown}}} in it; there is {', '.join(f'{{{name}}}' for name in LINKED)}")
    if "{" in rest or "}" in rest:
        raise ValueError(f"{text!r} has a brace that isn't closed, or not opened")
    if re.match(r"https?://.", text) is None:
        raise ValueError(f"{text!r} isn't of the form https://HOST/PATH")
    return text


def _port(text: str, port: int) -> int:
    if not 1 <= port <= LAST_PORT:
        raise ValueError(f"{text!r} has port {port}: ports are from 1 to {LAST_PORT}")
    return port
