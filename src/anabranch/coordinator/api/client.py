"""A client for a coordinator at a URL. Like a coordinator in this process, it has a method for each operation."""

from __future__ import annotations

import enum
import getpass
import os
import socket
import ssl
from collections.abc import Callable, Generator, Mapping
from typing import Any, ParamSpec, Self, TypeVar, cast, get_args, get_origin
from urllib.parse import quote

import msgspec

from anabranch.config.addresses import check_urls
from anabranch.config.secrets import without_passwords
from anabranch.coordinator.api import tls
from anabranch.coordinator.api.operation import STANDS_BY, Operation
from anabranch.coordinator.api.operations import Operations
from anabranch.errors import (
    AnabranchError,
    NotLeadingError,
    OutOfTimeError,
    StoreUnavailableError,
    UnreachableError,
    UnsupportedFormatError,
    UsageError,
)
from anabranch.httpx_alone import httpx
from anabranch.model.document import Document, UnknownVersionError, compact, decode
from anabranch.model.naming import check_container, check_name
from anabranch.protocol.errors import error_of, is_payload

__all__ = ["AWAY", "Client"]

AWAY = (UnreachableError, OutOfTimeError, NotLeadingError, StoreUnavailableError)
"""The errors that are raised if the coordinator can't answer at the moment. A later attempt can succeed."""

P = ParamSpec("P")
R = TypeVar("R")
_ASKING_SYSTEMS = 60.0
"""The seconds, in addition to ``timeout``, that an operation can take if the coordinator has to ask systems."""
_PASSING = (401, 429)
"""The statuses of refusals after which a later request can succeed. 401 means that another token is expected now. 429
means that there were too many requests."""
_JSON = {"Content-Type": "application/json"}
_ZIP = {"Content-Type": "application/zip"}


class Client(Operations):
    """A coordinator at a URL. Its methods raise the errors that the coordinator raised, and the following:

    - UnreachableError: nothing listens at the URL, no connection is made in time, something other than a coordinator
      answers there, or the connection breaks off.
    - OutOfTimeError: a connection was made, and no answer arrives in time.
    - UsageError: one side rejects the other's certificate, or the coordinator refuses the TLS connection for another
      reason.

    Once a coordinator has accepted a request of this client, a rejected certificate or token raises UnreachableError
    instead. The reason is that a later attempt can succeed, because the files with certificates and tokens are read
    again.

    Args:
        url: the coordinator's URL; or the URLs of several coordinators with the same store, separated by commas. The
            client finds the one that leads.
        timeout: seconds to wait for an answer. If a call asks the coordinator to wait, the time of that wait is added.
            If the coordinator may have to ask systems, another minute is added.
        token: the coordinator's token, or a function that looks it up. The function is called again if the token is
            refused, because a token may have been created or replaced meanwhile.
        trust: which certificates to accept and present, from :func:`anabranch.coordinator.api.tls.of_client`. By
            default, the client accepts certificates that certifi's authorities have signed, and presents none.

    Raises:
        UsageError: ``url`` isn't a coordinator URL, or its port isn't from 1 to 65535.
    """

    def __init__(
        self,
        url: str,
        timeout: float = 10.0,
        token: str | Callable[[], str | None] | None = None,
        trust: ssl.SSLContext | None = None,
    ) -> None:
        try:
            check_urls(url)
        except ValueError as error:
            raise UsageError(str(error), "give http://HOST:PORT, of several coordinators separated by commas") from None
        self._urls = [each.strip().rstrip("/") for each in url.split(",")]
        self._timeout = timeout
        bearer = _Bearer(token if callable(token) else lambda: token)
        # Loading certificates takes 0.05 s, so they are loaded only if a URL isn't http.
        secured = any(not url.startswith("http://") for url in self._urls)
        self._http = httpx.Client(
            timeout=timeout, trust_env=False, auth=bearer, headers=_client_name(), verify=trust or secured
        )
        self._accepted = False

    @property
    def url(self) -> str:
        """The URL of the coordinator that is asked first."""
        return self._urls[0]

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def call(self, operation: Operation[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Have the coordinator carry out an operation, and return the result."""
        given = operation.bound(*args, **kwargs)
        body = None if operation.body is None else given[operation.body]
        request: dict[str, Any] = {"timeout": self._timeout + (_ASKING_SYSTEMS if operation.asks_systems else 0.0)}
        if operation.waits:
            request["timeout"] += given[operation.waits]
        if isinstance(body, Document):
            request |= {"content": compact(body), "headers": _JSON}
        elif body is not None:
            request |= {"content": body, "headers": _ZIP}
        if query := _query(operation, given):
            request["params"] = query
        answer = self._ask(operation, _path(operation, given, body), **request)
        try:
            return cast(R, _result(operation, answer))
        except UnknownVersionError:
            raise
        except (
            UnsupportedFormatError,
            msgspec.DecodeError,
            TypeError,
            LookupError,
            ValueError,
            RecursionError,
        ) as error:
            why = error.what if isinstance(error, AnabranchError) else str(error)
            raise _stranger(self.url, f"the answer to {operation.name} can't be read: {why}") from error

    def _ask(self, operation: Operation[..., Any], path: str, **request: Any) -> bytes:
        """Send a request, and return the content of the answer.

        The coordinator that answered last is asked first (at the beginning, the coordinator at the first URL). If a
        coordinator doesn't answer, or says that it doesn't lead, the next one is asked. If no leading coordinator
        answers, the result is the answer of a coordinator that doesn't lead. If there is no such answer either, one of
        the errors is raised. An error of a coordinator that refuses this client takes precedence over an error of a
        coordinator that doesn't lead. Both take precedence over any other error.
        """
        second_best: bytes | None = None
        failed: Exception | None = None
        kept = _Kept.NO
        for left in range(len(self._urls) - 1, -1, -1):
            url = self._urls[0]
            try:
                second_best, leads = self._ask_one(url, operation, path, **request)
                if leads:
                    return second_best
            except _AwayError as error:
                if kept is _Kept.NO or error.kept > kept:
                    failed, kept = error, error.kept
            except AWAY as error:
                if second_best is None and not isinstance(error, NotLeadingError):
                    raise
                if kept is not _Kept.REFUSED:
                    failed, kept = error, _Kept.NO
            if left and self._urls[0] == url:  # no other thread has moved on to the next URL
                self._urls = [*self._urls[1:], url]
        if second_best is not None:
            return second_best
        assert failed is not None, "there is at least one URL"
        raise failed.reason if isinstance(failed, _AwayError) else failed from failed

    def _ask_one(self, url: str, operation: Operation[..., Any], path: str, **request: Any) -> tuple[bytes, bool]:
        """The content of a coordinator's answer, and whether the coordinator leads. Raises ``_AwayError`` if another
        coordinator should be asked instead."""
        try:
            answer = self._http.request(operation.method, url + path, **request)
        except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
            shown, why = without_passwords(url), without_passwords(str(error))
            raise UsageError(f"{shown!r} can't be asked: {why}", "give http://HOST:PORT") from error
        except httpx.HTTPError as error:
            away = _why(without_passwords(url), error)
            raise (_renewable(away) if self._accepted and isinstance(away, UsageError) else away) from error
        if answer.is_success:
            if not _is_expected(operation, answer):
                raise _AwayError(_stranger(url, f"the answer to {operation.name} can't be read: {_kind(answer)}"))
            self._accepted = True
            return answer.content, STANDS_BY not in answer.headers
        try:
            body = msgspec.json.decode(answer.content)
        except (msgspec.DecodeError, RecursionError):
            body = None
        if not is_payload(body):
            raise _AwayError(_stranger(url, f"status {answer.status_code}, {_kind(answer)}"))
        if STANDS_BY in answer.headers:
            raise _AwayError(error_of(answer.status_code, body), _Kept.STANDS_BY)
        refused = error_of(answer.status_code, body)
        raise _renewable(refused) if self._accepted and answer.status_code in _PASSING else refused


def _is_expected(operation: Operation[..., Any], answer: httpx.Response) -> bool:
    """Whether a successful response has the kind of content that a coordinator sends. If the operation returns bytes,
    a coordinator sends a zip file. For any other operation, even one without a result, it sends a JSON object."""
    if operation.result is bytes:
        return str(answer.headers.get("Content-Type", "")).startswith(_ZIP["Content-Type"])
    return bool(answer.content.startswith(b"{"))


def _kind(answer: httpx.Response) -> str:
    return f"its content is {answer.headers.get('Content-Type') or 'of no type'}"


def _stranger(url: str, said: str) -> UnreachableError:
    """The error to raise if something other than a coordinator answers at a URL."""
    return UnreachableError(
        f"what answers at {without_passwords(url)} isn't a coordinator: {said}",
        "see whether the URL is the coordinator's own; if a proxy is before it, whether the proxy reaches it",
    )


def _renewable(refused: AnabranchError) -> _AwayError:
    return _AwayError(UnreachableError(refused.what, refused.cure), _Kept.REFUSED)


def _why(url: str, error: httpx.HTTPError) -> Exception:
    if (untrusted := tls.refusal(error)) is not None:
        return UsageError(
            f"can't connect to {url}: the client or the coordinator rejects the other's certificate: {untrusted}",
            "check [coordinator] ca, client_certificate and client_key here, and certificate and client_ca at the "
            "coordinator",
        )
    if (alert := tls.alert(error)) is not None:
        return UsageError(
            f"can't connect to {url}: the coordinator, or a proxy before it, refuses the TLS connection: {alert}",
            "check which versions of TLS and which ciphers it accepts, and whether it requires a client certificate",
        )
    why: AnabranchError
    if isinstance(error, httpx.ConnectError) and any(isinstance(c, ConnectionRefusedError) for c in tls.causes(error)):
        why = UnreachableError(f"nothing runs at {url}", "start a job there: anabranch run, or a coordinator")
    elif isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
        why = UnreachableError(
            f"can't connect to {url}: {without_passwords(str(error))}",
            "check the URL (http or https, name and port), and whether this machine can reach it",
        )
    elif isinstance(error, httpx.TimeoutException):
        why = OutOfTimeError(f"the coordinator at {url} doesn't answer", "check whether it hangs")
    else:
        why = UnreachableError(f"the coordinator at {url} broke off: {without_passwords(str(error))}", "try again")
    return _AwayError(why)


def _client_name() -> dict[str, str]:
    """A request header with the user's name and host. The coordinator only records it."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user without a name
        user = str(os.getuid())
    return {"X-Anabranch-Who": f"{user}@{socket.gethostname()}".encode("ascii", "replace").decode()}


class _Bearer(httpx.Auth):
    """Sends the token with each request. If the token is refused, looks it up again, and repeats the request once if
    the token has changed."""

    def __init__(self, look_up: Callable[[], str | None]) -> None:
        self._look_up = look_up
        self._token = look_up()

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        self._put(request)
        answer = yield request
        if answer.status_code == 401 and (token := self._look_up()) != self._token:
            self._token = token
            self._put(request)
            yield request

    def _put(self, request: httpx.Request) -> None:
        if self._token is not None:
            request.headers["Authorization"] = f"Bearer {self._token}"


class _Kept(enum.IntEnum):
    """Which error to keep while several coordinators are asked in turn. An error with a higher value replaces the error
    that was kept before."""

    NO = 0  # nobody has answered
    STANDS_BY = 1
    REFUSED = 2


class _AwayError(Exception):
    """The next coordinator should be asked. Raised if no coordinator has answered at a URL. Also raised if a
    coordinator has answered with an error and either doesn't lead or refuses this client. ``reason`` is the error to
    raise if no coordinator is left to ask."""

    def __init__(self, reason: AnabranchError, kept: _Kept = _Kept.NO) -> None:
        super().__init__(str(reason))
        self.reason = reason
        self.kept = kept


def _path(operation: Operation[..., Any], given: Mapping[str, Any], body: object) -> str:
    path = operation.path
    for each in operation.parameters:
        if each.in_path:
            name = given[each.name] if each.name in given else getattr(body, each.name)
            path = path.replace(f"{{{each.sent_as}}}", quote(_checked(each.sent_as, name), safe=""))
    return path


def _checked(word: str, name: str) -> str:
    if word == "container":
        return check_container(name)
    return check_name("job", name) if word == "job" else name


def _query(operation: Operation[..., Any], given: Mapping[str, Any]) -> dict[str, Any]:
    return {
        each.sent_as: int(given[each.name]) if each.kind is bool else given[each.name]
        for each in operation.parameters
        if not each.in_path
    }


def _result(operation: Operation[..., Any], answer: bytes) -> Any:
    """The operation's result, decoded from an answer. If the operation returns a dict of documents by id, the documents
    arrive as a list."""
    kind, several = operation.result, get_origin(operation.result)
    if kind is bytes:
        return answer
    if not operation.field:
        return None if kind is type(None) else decode(answer, kind)
    found = msgspec.json.decode(answer)[operation.field]
    if several is None:
        return kind(found)
    documents = [decode(msgspec.json.encode(each), get_args(kind)[-1]) for each in found]
    return {each.id: each for each in documents} if several is dict else documents
