"""What a user is told when a lane fails: our own message if there is one inside Spark's, else Spark's first lines."""

from __future__ import annotations

import re
from collections.abc import Iterator

from anabranch.errors import (
    AnabranchError,
    ConflictError,
    FencedError,
    LogError,
    StateError,
    UnsupportedFormatError,
    UsageError,
)

_FINAL = (ConflictError, LogError, StateError, UnsupportedFormatError, UsageError)
_OURS = re.compile(r"anabranch\.errors\.\w+: (.+?)(?=\n\s*\n|\n\tat |\n\s*at \S+\(|\Z)", re.DOTALL)
_SPARK_CODE = re.compile(r"\[([A-Z][A-Z0-9_.]+)\] (.+)")
_PYTHON = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n|\n)*(\S.*)")
_JAVA = re.compile(r"An error occurred while calling [^\n]+\n: (?:[\w$]+\.)*([\w$]+(?:: [^\n]+)?)")
_TRACE = re.compile(r"\n(?:\tat |JVM stacktrace|Caused by:).*", re.DOTALL)


def is_ours(error: BaseException) -> bool:
    """Whether it tells of an error of anabranch's."""
    return _OURS.search(str(error)) is not None


def is_fenced(error: BaseException) -> bool:
    """Whether it says that another process has the lane, here or in a Python worker."""
    return isinstance(error, FencedError) or f"anabranch.errors.{FencedError.__name__}" in str(error)


def is_final(error: BaseException) -> bool:
    """Whether the same would come of another attempt: what lanes, streams, settings and files are doesn't change."""
    if isinstance(error, _FINAL):
        return True
    return any(f"anabranch.errors.{each.__name__}: " in str(error) for kind in _FINAL for each in _family(kind))


def _family(kind: type[AnabranchError]) -> Iterator[type[AnabranchError]]:
    yield kind
    for each in kind.__subclasses__():
        yield from _family(each)


def explain(error: BaseException) -> str:
    """One message of what failed, without a stack trace of ours or of Spark's."""
    text = str(error)
    ours = [found.group(1).strip() for found in _OURS.finditer(text)]
    if ours:
        lines = ours[0].split("\n")
        return "\n".join([lines[0], *[line for line in lines[1:] if line.startswith("  ") and "File " not in line]])
    coded = [found for found in _SPARK_CODE.finditer(text) if not found[1].startswith("STREAM_FAILED")]
    if coded:
        return coded[-1].group(0).split(" SQLSTATE")[0].strip()
    raised = _PYTHON.findall(text)
    if raised:
        return str(raised[-1]).strip()
    thrown = _JAVA.search(text)
    if thrown is not None:
        return thrown[1]
    return _TRACE.sub("", text).strip().split("\n")[0] or type(error).__name__
