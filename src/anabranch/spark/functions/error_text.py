"""Makes short descriptions of exceptions and rows.

Exceptions and values come from user code. Their ``__str__`` may raise an exception, or return 50 MB or something other
than a string. Even then, the public functions of this module return text that is valid in UTF-8, and raise nothing.
"""

from __future__ import annotations

import base64
import json
import math
import reprlib
import traceback
from collections.abc import Callable, Iterator, Mapping
from datetime import date, time, timedelta
from decimal import Decimal
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from anabranch.job_code import user_files
from anabranch.spark import root_cause
from anabranch.spark.root_cause import Cause

__all__ = [
    "LIMIT",
    "UNPICKLABLE",
    "as_json",
    "bounded",
    "caused",
    "described",
    "one_line",
    "quotable",
    "quotes_ours",
    "reason",
    "shortened",
    "traced",
]

_T = TypeVar("_T")

LIMIT = 2000
"""The maximum length of the description of an exception, in characters."""

UNPICKLABLE = "make such an object inside the function, or in a module next to the job file that workers import"
"""What to do about an object that can't be sent to a Python worker."""

_OURS = "anabranch.errors."
_OF_SPARK = ("py4j", "pyspark")
_SHORT = 80
_CAUSES = 4
_MEMBERS = 5
_FRAMES = 8
_DEPTH = 100
"""The depth at which nested values are cut off. Spark's own values are never nested so deeply."""


class _Repr(reprlib.Repr):
    """Computes the shortened ``repr`` of a value, without first making the full ``repr`` of a large value."""

    def repr_bytes(self, value: bytes, level: int) -> str:
        return repr(value) if len(value) <= _SHORT else f"{value[: _SHORT // 2]!r}… ({len(value)} bytes)"

    def repr_bytearray(self, value: bytearray, level: int) -> str:
        return self.repr_bytes(bytes(value[: _SHORT + 1]), level)

    def repr_memoryview(self, value: memoryview, level: int) -> str:
        return f"a memoryview of {value.nbytes} bytes"

    def repr_ndarray(self, value: Any, level: int) -> str:
        return f"an array of {value.dtype}, of the shape {value.shape}"


_REPR = _Repr()
_REPR.maxstring = _REPR.maxother = _SHORT


def described(error: BaseException, home: str = "") -> str:
    """A description of an exception, in one line: the type, the message, the notes, the causes, and where in the job's
    files the exception was raised. For an exception group, the members are described, too.

    Args:
        home: the job's folder. Only frames of the user's files in this folder are included. If ``home`` is '', all
            frames are included.
    """
    told = _attempted(lambda: "; caused by ".join(_chain(error, home)))
    return bounded(told if told is not None else _name(type(error)))


def caused(error: BaseException, home: str) -> str:
    """The causes of an exception, each as ``; caused by …``, as in :func:`described`; empty if there are none."""
    causes = _attempted(lambda: [*islice(_chain(error, home), 1, None)])
    return bounded("".join(f"; caused by {cause}" for cause in causes or ()))


def reason(error: BaseException) -> str:
    """Why Spark has raised an exception, in one line: the first line of the exception's text, and the causes that the
    text and the Java stack trace quote. If the exception only says that another one was raised, for example by a
    function in a Python worker, only the causes."""
    told = _attempted(lambda: "; caused by ".join(_reasons(error)))
    return one_line(told) if told else _name(type(error))


def quotes_ours(error: BaseException) -> bool:
    """Whether the message of an exception, of one of its causes, or of a member of an exception group, quotes an error
    of anabranch. Spark quotes errors of Python workers in this way."""
    return _attempted(lambda: any(_OURS in root_cause.full_message(each) for each in _related(error))) or False


def quotable(error: BaseException) -> BaseException | None:
    """The exception, if the trace of an error of anabranch may quote it; otherwise None. If the exception's own trace
    names another error of anabranch, that error would later be mistaken for the one that quotes it (see
    :mod:`anabranch.container.error_text`)."""
    trace = _attempted(lambda: "".join(traceback.format_exception(error)))
    return None if trace is None or _OURS in trace else error


def traced(error: BaseException, home: str) -> str:
    """The frames of an exception, as `` at file:line in function; …``; empty if there are no frames. Only frames of the
    user's files in the folder ``home`` are included, unless ``home`` is ''. If there are many frames, those in the
    middle are left out. If Spark has raised the exception because of an error in a Python worker, the last frame is the
    worker's.
    """
    trace = _attempted(lambda: error.__traceback__)
    frames = list(_frames(trace, home))
    in_worker = _attempted(lambda: _frame_in_worker(error, home)) if _is_of_spark(error) else None
    if in_worker is not None and in_worker not in frames:
        frames.append(in_worker)
    if len(frames) > _FRAMES:
        left_out = f"{len(frames) - _FRAMES} more frames"
        frames = [*frames[: _FRAMES // 2], left_out, *frames[-_FRAMES // 2 :]]
    return f" at {'; '.join(frames)}" if frames else ""


def bounded(text: str, limit: int = LIMIT) -> str:
    """The text, cut to ``limit`` characters. NUL characters, and characters that UTF-8 can't encode, are replaced by
    escapes.
    """
    length = str.__len__(text)
    cut = str.__getitem__(text, slice(0, limit))
    clean = cut.encode("utf-8", "backslashreplace").decode("utf-8").replace("\0", "\\x00")
    if length <= limit and len(clean) <= limit:
        return clean
    end = f"… ({length} characters)"
    return clean[: limit - len(end)] + end


def one_line(text: str) -> str:
    """The text like :func:`bounded`, with its lines joined by `` | `` and without blank lines. (In the error text of a
    failed lane, what follows a message's first line would be lost.)
    """
    lines = (line.strip() for line in bounded(text).splitlines())
    return bounded(" | ".join(line for line in lines if line))


def shortened(value: object) -> str:
    """The ``repr`` of a value, cut short. For a memoryview or a numpy array, the text is a description instead. If
    ``repr`` raises an exception, the text names the value's type."""
    told = _attempted(lambda: _REPR.repr(value))
    return bounded(told, _SHORT) if isinstance(told, str) else f"<a {_name(type(value))} that has no repr>"


def as_json(row: object) -> bytes:
    """A row as a JSON object; ``null`` for None. Most values that JSON can't represent become text: bytes are encoded
    in base64, while NaN, infinity, times and decimals are converted by ``str``. A row that can't be converted becomes a
    string with its shortened ``repr``.
    """
    plain = _attempted(lambda: _plain(row, 0))
    return json.dumps(plain if plain is not None else shortened(row)).encode() if row is not None else b"null"


def _attempted(make: Callable[[], _T]) -> _T | None:
    """The result of ``make``, which runs user code; None if ``make`` raises any exception."""
    try:
        return make()
    except BaseException:  # user code can raise anything
        return None


def _name(kind: type) -> str:
    name = _attempted(lambda: type.__dict__["__name__"].__get__(kind))
    return name if isinstance(name, str) else "exception"


def _message(error: BaseException) -> str:
    told = _attempted(lambda: str(error))
    if told is None:
        return f"its text can't be made: __str__ of {_name(type(error))} raises"
    return one_line(told)


def _chain(error: BaseException, home: str) -> Iterator[str]:
    seen: set[int] = set()
    following: BaseException | None = error
    while following is not None and id(following) not in seen and len(seen) < _CAUSES:
        seen.add(id(following))
        yield _one(following, home)
        following = None if _is_of_spark(following) else _cause(following)  # the reason of Spark's contains the causes


def _related(error: BaseException) -> Iterator[BaseException]:
    for link in root_cause.links(error):
        yield link
        if isinstance(link, BaseExceptionGroup):
            yield from link.exceptions


def _cause(error: BaseException) -> BaseException | None:
    cause = _attempted(lambda: error.__cause__)
    if cause is None and not _attempted(lambda: error.__suppress_context__):
        cause = _attempted(lambda: error.__context__)
    return cause if isinstance(cause, BaseException) else None


def _one(error: BaseException, home: str, depth: int = 0) -> str:
    told = _headline(error)
    if isinstance(error, BaseExceptionGroup) and depth < _CAUSES:
        told += f" [{_members(error, home, depth)}]"
    notes = _attempted(lambda: [one_line(note) for note in error.__notes__ if isinstance(note, str)])
    told += "".join(f" ({note})" for note in (notes or [])[:_MEMBERS])
    return told + traced(error, home)


def _headline(error: BaseException) -> str:
    """The type and the message of an exception or, if it comes from Spark, its :func:`reason` with the type."""
    name = _name(type(error))
    if _is_of_spark(error):
        reasons = _attempted(lambda: "; caused by ".join(_reasons(error, f"{name}: ")))
        if reasons:
            return one_line(reasons)
    message = _message(error)
    return f"{name}: {message}" if message else name


def _is_of_spark(error: BaseException) -> bool:
    module = _attempted(lambda: type(error).__module__.partition(".")[0])
    return module in _OF_SPARK


def _reasons(error: BaseException, name: str = "") -> list[str]:
    """The parts of :func:`reason`. ``name`` is prepended to the first line of the exception's own text."""
    first = root_cause.said(error).strip().split("\n")[0]
    reasons = [f"{name}{first}"] if first and not Cause(_name(type(error)), first).is_wrapper else []
    for cause in root_cause.parsed(root_cause.text_of(error)).causes:
        line = cause.message.strip().split("\n")[0] or cause.name
        if not any(line in other for other in reasons):
            reasons.append(cause.told)
    return reasons[-_CAUSES:]


def _frame_in_worker(error: BaseException, home: str) -> str | None:
    frame = root_cause.parsed(root_cause.text_of(error)).frame_in(home)
    return None if frame is None else f"{Path(frame.file).name}:{frame.line} in {frame.function}"


def _members(group: BaseExceptionGroup[BaseException], home: str, depth: int) -> str:
    members = _attempted(lambda: group.exceptions) or ()
    shown = [_one(each, home, depth + 1) for each in members[:_MEMBERS]]
    if len(members) > _MEMBERS:
        shown.append(f"{len(members) - _MEMBERS} more")
    return "; ".join(shown)


def _frames(trace: TracebackType | None, home: str) -> Iterator[str]:
    while trace is not None:
        code = trace.tb_frame.f_code
        if not home or user_files.is_below(home, code.co_filename):
            yield f"{Path(code.co_filename).name}:{trace.tb_lineno} in {code.co_name}"
        trace = trace.tb_next


def _plain(value: object, depth: int) -> Any:
    """A value in a form that JSON can represent."""
    if value is None or value is True or value is False or type(value) is str:
        return value
    if depth > _DEPTH:
        return "…"
    if type(value) is int:
        return value if value.bit_length() <= 10_000 else shortened(value)
    if type(value) is float:
        return value if math.isfinite(value) else str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return {_field(name): _plain(each, depth + 1) for name, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(each, depth + 1) for each in value]
    if isinstance(value, date | time | timedelta | Decimal):
        return str(value)
    told = _attempted(lambda: str(value))
    return bounded(told) if isinstance(told, str) else shortened(value)


def _field(name: object) -> str:
    plain = _plain(name, 0)
    return plain if isinstance(plain, str) else json.dumps(plain)
