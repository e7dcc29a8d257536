"""Sends a job's functions and processors to Python workers. If they come from a job file, workers import this file;
otherwise, pickled copies are sent.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pyspark import cloudpickle

from anabranch.errors import AnabranchError, GraphError, OperatorError
from anabranch.job_code import environment, job_modules, user_files
from anabranch.job_code.environment import Changes
from anabranch.job_code.job_modules import JobCode
from anabranch.model.graph import Node
from anabranch.spark.functions import error_text
from anabranch.spark.operators.labels import label

__all__ = ["JobFunction", "culprit", "of_node"]

_DEPTH = 6
"""How deeply :func:`culprit` follows references."""

_MISSING = "install it where Python workers run, in the Python that runs anabranch, or put it next to the job file"
_OWN = 'put what only the user\'s process can do under if __name__ == "__main__":, or into a function'


@dataclass(frozen=True)
class JobFunction:
    """An operator's function or processor, in a form that can be pickled. ``home`` is the job's folder on this machine.

    A pickle of this object contains either ``code``, by which a worker finds the function in the job file, or
    ``pickled``, a pickled copy of the function. ``environment`` is applied in the worker before the function is made.
    """

    value: Any
    home: str
    node: Node
    code: JobCode | None = None
    pickled: bytes = b""
    environment: Changes = ()

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        if self.code is not None:
            return _from_file, (self.code, self.home, self.node, self.environment)
        return _from_code, (self.pickled, self.home, self.node, self.environment)


def of_node(node: Node, functions: Mapping[int, Any], home: str) -> JobFunction:
    """The function or processor of an operator, in a form that can be sent to workers.

    Raises:
        GraphError: the function doesn't come from a job file, and refers to something that can't be copied to another
            process.
    """
    value, changes = functions[node.id], environment.changes()
    code = job_modules.code_of(node.id, value)
    if code is not None:
        return JobFunction(value, home, node, job_modules.snapshot(code), environment=changes)
    try:
        pickled = cloudpickle.dumps(value)  # type: ignore[no-untyped-call]
        return JobFunction(value, home, node, pickled=pickled, environment=changes)
    except Exception as error:
        raise GraphError(
            f"{label(node)} can't be copied to Python workers: {culprit(value) or error}",
            "make it inside the function; or keep it at the top level of a job file, which workers import: then run "
            "the file, or give anabranch.testing its path or a Job that was imported from it",
        ) from None


def _from_code(pickled: bytes, home: str, node: Node, changes: Changes) -> JobFunction:
    environment.apply(changes)
    job_modules.refresh()
    return JobFunction(cloudpickle.loads(pickled), home, node, pickled=pickled, environment=changes)


def _from_file(code: JobCode, home: str, node: Node, changes: Changes) -> JobFunction:
    environment.apply(changes)
    try:
        module = job_modules.importing(code)
    except AnabranchError:
        raise
    except (Exception, SystemExit) as error:
        why = error_text.described(error, job_modules.home_of(code))
        raise OperatorError(
            f"{code.file} can't be imported in a Python worker: {why}",
            _MISSING if isinstance(error, ImportError) else _OWN,
        ) from error_text.quotable(error)
    jobs = job_modules.jobs_in(module)
    found = jobs[0] if len(jobs) == 1 else None
    same = found is not None and node.id < len(found.graph.nodes) and _place(found.graph.nodes[node.id]) == _place(node)
    if found is None or not same or node.id not in found.functions:
        raise GraphError(
            f"{label(node)} isn't in the job that {code.file} builds when a Python worker imports it",
            "let the file build the same job wherever it is imported, independent of arguments, the time, and "
            "what only the user's process has",
        )
    return JobFunction(found.functions[node.id], job_modules.home_of(code), node, code, environment=changes)


def _place(node: Node) -> tuple[str, str, str]:
    return node.kind, node.name, node.where


def culprit(value: Any) -> str:
    """Finds a part of ``value`` (a function or a processor) that can't be pickled. Returns a description that gives the
    part's place, with the line numbers of functions, and its type. Empty if no such part is found.
    """
    trail = _trail(value, ())
    if trail is None:
        return ""
    way, last = trail
    return f"{' of '.join(reversed(way))} is a {type(last).__module__}.{type(last).__qualname__}"


def _trail(value: Any, way: tuple[str, ...]) -> tuple[tuple[str, ...], Any] | None:
    if len(way) > _DEPTH or _is_fine(value):
        return None
    for name, part in _parts(value):
        found = _trail(part, (*way, name))
        if found is not None:
            return found
    return (way, value) if way else None


def _is_fine(value: Any) -> bool:
    try:
        cloudpickle.dumps(value)  # type: ignore[no-untyped-call]
    except Exception:
        return False
    return True


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """The objects to which an object refers, each with a description."""
    if isinstance(value, types.FunctionType):
        line = f"{Path(value.__code__.co_filename).name}:{value.__code__.co_firstlineno}"
        inside = inspect.getclosurevars(value)
        for name, each in inside.nonlocals.items():
            yield f"the variable {name!r} around {value.__qualname__} ({line})", each
        for name, each in inside.globals.items():
            yield f"the module's variable {name!r}, which {value.__qualname__} ({line}) uses,", each
        for each in (*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()):
            yield f"a default of {value.__qualname__} ({line})", each
    elif isinstance(value, types.MethodType):
        yield from _parts(value.__self__)
        yield from _parts(value.__func__)
    elif isinstance(value, partial):
        yield from _parts(value.func)
        for each in (*value.args, *value.keywords.values()):
            yield "an argument of functools.partial", each
    elif isinstance(value, Mapping):
        yield from ((f"the entry {name!r}", each) for name, each in value.items())
    elif isinstance(value, list | tuple | set | frozenset):
        yield from (("an element", each) for each in value)
    else:
        kind = type(value)
        for name, each in getattr(value, "__dict__", {}).items():
            yield f"the attribute {name!r} of a {kind.__qualname__}", each
        for name in ("__call__", "on_message", "on_timer"):
            method = vars(kind).get(name)
            if isinstance(method, types.FunctionType):
                yield from _parts(method)
        wrapped = user_files.wrapped(value)
        if wrapped is not None:
            yield from _parts(wrapped)
