"""Determines which files are the user's, and finds those from which an operator's function comes."""

from __future__ import annotations

import functools
import inspect
import os
import site
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any

import anabranch

__all__ = ["files", "is_below", "is_library", "is_users", "wrapped"]

_FUNCTIONS = (FunctionType, MethodType, functools.partial)


def files(function: Any) -> Iterator[str]:
    """The user's files in which a function or a processor is defined. For a method, a ``functools.partial`` or a
    decorated function, the files of what is wrapped come first, then the wrapper's file. A function of a library, or
    one that wasn't defined in a file, adds no file.
    """
    for part in _parts(function, set()):
        file = _file(part)
        if file is not None and is_users(file):
            yield file


@functools.cache
def is_users(file: str) -> bool:
    """Whether a file belongs neither to Python, nor to an installed package, nor to anabranch."""
    path = Path(file).resolve()
    return not any(path.is_relative_to(folder) for folder in _libraries())


@functools.cache
def is_below(home: str, file: str) -> bool:
    """Whether a file is below the job's folder ``home``, and is the user's. If Python or packages are installed below
    this folder, for example in a virtual environment, their files aren't the user's. The files of a package to which
    the job itself belongs are the user's.
    """
    if not file.startswith(f"{home.rstrip('/')}/"):
        return False
    try:
        path, folder = Path(os.path.realpath(file)), Path(os.path.realpath(home))
    except ValueError:  # no file can have this name
        return False
    return not any(path.is_relative_to(each) and not folder.is_relative_to(each) for each in _libraries())


def is_library(folder: str) -> bool:
    """Whether Python's modules or packages are installed in this folder."""
    return Path(folder).resolve() in _libraries()


@functools.cache
def _libraries() -> frozenset[Path]:
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    folders = [*map(sysconfig.get_path, names), *site.getsitepackages(), site.getusersitepackages()]
    return frozenset(Path(folder).resolve() for folder in (*folders, *anabranch.__path__))


def _parts(value: Any, seen: set[int]) -> Iterator[FunctionType | type]:
    """The functions and classes of which a function consists, the innermost first."""
    if id(value) in seen:
        return
    seen.add(id(value))
    for inner in _inner(value):
        yield from _parts(inner, seen)
    yield value if isinstance(value, FunctionType | type) else type(value)


def _inner(value: Any) -> Iterator[Any]:
    """What a method, a partial or a decorator calls. A library's decorator doesn't always reveal what it wraps. So for
    a library's function, the functions among its arguments or in its closure are yielded, too.
    """
    if isinstance(value, MethodType):
        yield from (value.__func__, value.__self__)
    elif isinstance(value, functools.partial):
        yield value.func
        if next(files(value.func), None) is None:
            yield from _functions((*value.args, *value.keywords.values()))
    else:
        inner = wrapped(value)
        if inner is not None:
            yield inner
        elif isinstance(value, FunctionType) and not is_users(_file(value) or ""):
            yield from _functions(cell.cell_contents for cell in value.__closure__ or () if _is_set(cell))


def wrapped(value: Any) -> Any:
    """The object that a decorated object wraps; None if the object isn't decorated. An object whose ``__getattr__``
    answers every name counts as not decorated.
    """
    if inspect.getattr_static(value, "__wrapped__", None) is None:
        return None
    try:
        return value.__wrapped__
    except Exception:  # a proxy whose object isn't there
        return None


def _functions(values: Iterable[Any]) -> Iterator[Any]:
    return (value for value in values if isinstance(value, _FUNCTIONS))


def _is_set(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _file(part: FunctionType | type) -> str | None:
    """The file of a function's code. For a class, or a function whose code isn't in a file, the file of the module."""
    code = getattr(part, "__code__", None)
    if code is not None and Path(code.co_filename).is_file():
        return str(code.co_filename)
    file = getattr(sys.modules.get(part.__module__), "__file__", None)
    return file if file is not None and Path(file).is_file() else None
