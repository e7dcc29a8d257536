"""Explains why something that the settings name, such as ``module:Class``, can't be imported."""

from __future__ import annotations

import importlib
import traceback
from collections.abc import Iterator
from pathlib import Path

__all__ = ["reason"]

_OWN = f"{Path(__file__).parent}/"


def reason(error: BaseException) -> str:
    """Why an import, or looking up a name in the imported module, has failed, in one line: the exception, the line of
    the user's module that raised it or led to it, and the exception's causes.
    """
    what = str(error) if isinstance(error, ImportError | AttributeError) else _described(error)
    causes = "".join(f"; caused by {_described(cause)}" for cause in _causes(error))
    return " | ".join(line.strip() for line in f"{what}{_place(error)}{causes}".splitlines() if line.strip())


def _described(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _place(error: BaseException) -> str:
    """The outermost frame that belongs to neither anabranch nor Python's import system, as `` at FILE:LINE``; empty if
    there is no such frame."""
    for frame, line in traceback.walk_tb(error.__traceback__):
        file = frame.f_code.co_filename
        if not file.startswith((_OWN, "<frozen importlib")) and file != importlib.__file__:
            return f" at {Path(file).name}:{line}"
    return ""


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        if current is not error:
            yield current
        following = None if current.__suppress_context__ else current.__context__
        current = following if current.__cause__ is None else current.__cause__
