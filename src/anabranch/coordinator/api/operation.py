"""Defines an operation of the HTTP API: all that the server, the client and the OpenAPI description need to know."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import (
    Any,
    Concatenate,
    Generic,
    Literal,
    ParamSpec,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

from anabranch.model.document import Document

__all__ = ["STANDS_BY", "Caller", "Method", "Operation", "Parameter", "Query", "operation"]

P = ParamSpec("P")
R = TypeVar("R")
Method = Literal["GET", "POST", "PUT"]

STANDS_BY = "X-Anabranch-Stands-By"
"""A response header by which a coordinator says that it doesn't lead, so that clients can ask another coordinator."""
MAX_BYTES = 16_000_000
"""The maximum size of the body of most requests, in bytes. (A heartbeat with 1,000 positions takes several
hundred kilobytes.)"""


@dataclass(frozen=True)
class Query:
    """How a parameter appears in the query of the URL.

    Args:
        name: the name in the URL, if it differs from the parameter's name in Python.
        longest: the maximum number of characters; a longer value is truncated. None if there is no maximum.
        example: a value to show to a client that omits the parameter.
    """

    name: str = ""
    longest: int | None = None
    example: str = "..."


@dataclass(frozen=True)
class Parameter:
    """A parameter in the path or in the query. ``name`` is the parameter's name in Python. ``sent_as`` is its name in
    the URL."""

    name: str
    sent_as: str
    kind: type
    in_path: bool
    default: Any = inspect.Parameter.empty
    longest: int | None = None
    example: str = "..."

    @property
    def required(self) -> bool:
        return self.default is inspect.Parameter.empty


class Caller(ABC):
    """An object whose methods are the operations: a client, or the coordinator itself."""

    @abstractmethod
    def call(self, operation: Operation[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Carry out an operation, or have it carried out."""


@dataclass(frozen=True)
class Operation(Generic[P, R]):
    """An HTTP method on a path. On an instance of :class:`Caller`, the operation is a Python method with ``signature``.

    Attributes:
        name: the name of the method, and of the command's module, if there is a command.
        parameters: the parameters in the path and in the query. A path parameter that isn't in the signature is a field
            of the request; for example, a heartbeat names its container.
        request: the type of the body; None if there is none.
        result: the type of the result: one or several documents, a dict, bytes, text, a number or a bool; NoneType if
            there is no result.
        field: the field of the response that contains the result; empty if the response is the result itself.
        changes: whether the operation can change something.
        private: whether the operation requires the role ``operate``. If not, the role ``read`` suffices.
        by_leader: whether only the coordinator that leads may carry out the operation.
        asks_systems: whether the operation may have to wait for answers from the systems of a job's streams.
        max_bytes: the maximum size of a request's body, in bytes.
        waits: the parameter with the number of seconds that the coordinator may wait before it answers; empty if none.
        by_generation: whether the answer stays the same as long as the job has the same generation.
        fresh_for: the seconds for which an answer is reused for all clients. The value is 0.0 if answers aren't reused,
            or if they are reused without a time limit because of ``by_generation``.
    """

    name: str
    method: Method
    path: str
    summary: str
    signature: inspect.Signature
    parameters: tuple[Parameter, ...]
    request: type[Document] | type[bytes] | None
    result: Any
    field: str
    changes: bool
    private: bool
    by_leader: bool
    asks_systems: bool
    max_bytes: int
    waits: str
    by_generation: bool
    fresh_for: float

    @overload
    def __get__(self, caller: None, owner: type) -> Operation[P, R]: ...
    @overload
    def __get__(self, caller: Caller, owner: type) -> Callable[P, R]: ...
    def __get__(self, caller: Caller | None, owner: type) -> Operation[P, R] | Callable[P, R]:
        if caller is None:
            return self

        def method(*args: P.args, **kwargs: P.kwargs) -> R:
            return caller.call(self, *args, **kwargs)

        return method

    @property
    def body(self) -> str | None:
        """The name of the parameter that is sent as the body; None if there is no body."""
        elsewhere = {each.name for each in self.parameters}
        return next((name for name in self.signature.parameters if name not in elsewhere), None)

    def bound(self, *args: P.args, **kwargs: P.kwargs) -> Mapping[str, Any]:
        """The arguments of a call and the defaults, by parameter name. Raises TypeError if the arguments don't fit."""
        found = self.signature.bind(*args, **kwargs)
        found.apply_defaults()
        return found.arguments


def operation(
    method: Method,
    path: str,
    *,
    field: str = "",
    changes: bool = False,
    private: bool = True,
    by_leader: bool | None = None,
    asks_systems: bool = False,
    max_bytes: int = MAX_BYTES,
    waits: str = "",
    by_generation: bool = False,
    fresh_for: float = 0.0,
) -> Callable[[Callable[Concatenate[Any, P], R]], Operation[P, R]]:
    """A decorator that makes an operation from a method. Name, parameters, request and result come from the method's
    signature, and the summary comes from the method's docstring. A parameter that the path names is sent in the path. A
    document or bytes are sent as the body. Any other parameter is sent in the query.

    For the arguments not listed here, see :class:`Operation`.

    Args:
        private: if False, clients with the role ``read`` also get the answer. Such an answer must not contain
            settings, code, or records that jobs process. Only a GET can have ``private=False``.
        by_leader: by default, the same as ``changes``.

    Raises:
        ValueError: ``private=False`` with an HTTP method other than GET.
    """
    if not private and method != "GET":
        raise ValueError(f"{method} {path} has private=False: who may only read may only GET")

    def made(declared: Callable[Concatenate[Any, P], R]) -> Operation[P, R]:
        hints = get_type_hints(declared, include_extras=True)
        own = [each for each in inspect.signature(declared).parameters.values() if each.name != "self"]
        parameters = [_parameter(each, hints[each.name], path) for each in own if not _is_body(hints[each.name])]
        known = {each.sent_as for each in parameters}
        parameters += [Parameter(name, name, str, True) for name in _in_path(path) if name not in known]
        request = next((hints[each.name] for each in own if _is_body(hints[each.name])), None)
        return Operation(
            name=declared.__name__,
            method=method,
            path=path,
            summary=inspect.cleandoc(declared.__doc__ or "").replace("\n", " "),
            signature=inspect.Signature(own),
            parameters=tuple(parameters),
            request=request,
            result=hints["return"],
            field=field,
            changes=changes,
            private=private,
            by_leader=changes if by_leader is None else by_leader,
            asks_systems=asks_systems,
            max_bytes=max_bytes,
            waits=waits,
            by_generation=by_generation,
            fresh_for=fresh_for,
        )

    return made


def _parameter(declared: inspect.Parameter, hint: Any, path: str) -> Parameter:
    kind, query = hint, Query()
    if get_origin(hint) is not None:
        kind, query = get_args(hint)
    sent_as = query.name or declared.name
    return Parameter(
        name=declared.name,
        sent_as=sent_as,
        kind=kind,
        in_path=sent_as in _in_path(path),
        default=declared.default,
        longest=query.longest,
        example=query.example,
    )


def _in_path(path: str) -> list[str]:
    return [part[1:-1] for part in path.split("/") if part.startswith("{")]


def _is_body(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, Document | bytes)
