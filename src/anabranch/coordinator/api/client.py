"""A coordinator at a URL, with the methods of one in the same process: those of the table of operations."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar, cast, get_args, get_origin
from urllib.parse import quote

import msgspec

from anabranch.config.addresses import check_urls
from anabranch.coordinator.api.http_errors import error_of
from anabranch.coordinator.api.operation import Operation
from anabranch.coordinator.api.operations import Operations
from anabranch.coordinator.naming import check_container, check_name
from anabranch.errors import (
    AnabranchError,
    NotLeadingError,
    OutOfTimeError,
    StoreUnavailableError,
    UnreachableError,
    UsageError,
)
from anabranch.httpx_alone import httpx
from anabranch.model.document import Document, compact, decode

__all__ = ["AWAY", "Client"]

AWAY = (UnreachableError, OutOfTimeError, NotLeadingError, StoreUnavailableError)
"""What is raised when the coordinator can't be asked now: it is worth trying again."""

P = ParamSpec("P")
R = TypeVar("R")
_ASKING_SYSTEMS = 60.0
"""Seconds more that the coordinator may take where it asks systems first."""
_JSON = {"Content-Type": "application/json"}


class Client(Operations):
    """Raises what the coordinator raised; NotFoundError when nothing listens, OutOfTimeError if it's mute.

    Raises:
        UsageError: ``url`` isn't a coordinator's, or its port is above 65535.

    Args:
        url: several, separated by commas, are of coordinators on one store: the one that leads is found.
        timeout: seconds for an answer, beyond what a call asks the coordinator to wait.
        token: what the coordinator wants to see.
    """

    def __init__(self, url: str, timeout: float = 10.0, token: str | None = None) -> None:
        try:
            check_urls(url)
        except ValueError as error:
            raise UsageError(str(error), "give http://HOST:PORT, of several coordinators separated by commas") from None
        self._urls = [each.strip().rstrip("/") for each in url.split(",")]
        self._timeout = timeout
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        # Certificates take 0.05 s to load.
        secured = any(not url.startswith("http://") for url in self._urls)
        self._http = httpx.Client(timeout=timeout, trust_env=False, headers=headers, verify=secured)

    @property
    def url(self) -> str:
        """The coordinator that is asked first."""
        return self._urls[0]

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def call(self, operation: Operation[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Ask for an operation of the table."""
        given = operation.bound(*args, **kwargs)
        body = None if operation.body is None else given[operation.body]
        request: dict[str, Any] = {"timeout": self._timeout + (_ASKING_SYSTEMS if operation.asks_systems else 0.0)}
        if operation.waits:
            request["timeout"] += given[operation.waits]
        if isinstance(body, Document):
            request |= {"content": compact(body), "headers": _JSON}
        elif body is not None:
            request["content"] = body
        if query := _query(operation, given):
            request["params"] = query
        answer = self._ask(operation.method, _path(operation, given, body), **request)
        return cast(R, _result(operation, answer))

    def _ask(self, method: str, path: str, **request: Any) -> bytes:
        """Ask the coordinator that answered last; if it is away or stands by, the others, each once."""
        for left in range(len(self._urls) - 1, -1, -1):
            url = self._urls[0]
            try:
                return self._ask_one(url, method, path, **request)
            except (NotLeadingError, _AwayError) as error:
                if not left:
                    raise error.reason if isinstance(error, _AwayError) else error from error
                if self._urls[0] == url:  # no other thread has turned to the next one
                    self._urls = [*self._urls[1:], url]
        raise AssertionError("there is at least one URL")

    def _ask_one(self, url: str, method: str, path: str, **request: Any) -> bytes:
        try:
            answer = self._http.request(method, url + path, **request)
        except httpx.ConnectError as error:
            absent = UnreachableError(f"nothing runs at {url}", "start a job there: anabranch run, or a coordinator")
            raise _AwayError(absent) from error
        except httpx.TimeoutException as error:
            mute = OutOfTimeError(f"the coordinator at {url} doesn't answer", "see whether it hangs")
            raise _AwayError(mute) from error
        except httpx.HTTPError as error:
            cut = UnreachableError(f"the coordinator at {url} broke off: {error}", "try again")
            raise _AwayError(cut) from error
        if answer.is_success:
            return answer.content
        try:
            body = msgspec.json.decode(answer.content)
        except msgspec.DecodeError:
            body = None
        raise error_of(answer.status_code, body)


class _AwayError(Exception):
    """A coordinator that couldn't be asked; ``reason`` is raised if no other one can be asked either."""

    def __init__(self, reason: AnabranchError) -> None:
        super().__init__(str(reason))
        self.reason = reason


def _path(operation: Operation[..., Any], given: Mapping[str, Any], body: object) -> str:
    """The path with its parameters: arguments of the call, or fields of the request."""
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
    """What an answer says. Several documents come in a list, whatever they are kept in here."""
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
