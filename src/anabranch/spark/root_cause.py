"""Finds the root cause of a failure in the text of an exception. Needs no Spark.

Spark, py4j and Python put the text of an inner error into the message of the outer one. For example, a Python error can
contain a Java error, which in turn contains the traceback of a Python worker.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from anabranch.job_code import user_files

__all__ = ["Cause", "Frame", "RootCause", "full_message", "links", "parsed", "said", "text_of"]

_MOST_LINKS = 20
_LONGEST = 400_000
"""The maximum number of characters that are examined: half from the beginning of a text, and half from its end. A
message can contain a record of 50 MB.
"""
_LONGEST_LINE = 4000

_NAME = r"(?:[A-Za-z_][\w$]*\.)*[A-Za-z_][\w$]*"
_JAVA = r"(?:[a-z_][\w$]*\.)+[A-Z][\w$]*"
_CAUSED = re.compile(rf"^(?:Caused by: |: )({_JAVA})(?:: ?(.*))?$")
_BARE = re.compile(rf"^({_JAVA}(?:Exception|Error|Throwable|Failure))(?:: ?(.*))?$")
_IN_TASK = re.compile(rf"\(TID \d+\) \([^)]*\): ({_JAVA})(?:: ?(.*))?$")
_PYTHON = re.compile(rf"^({_NAME})(?:: ?(.*))?$")
_FRAME = re.compile(r'^\s+File "([^"]+)", line (\d+), in (.+)$')
_TRACEBACK = "Traceback (most recent call last):"
_MARGIN = re.compile(r"^\s*(?:\+-+|[|+]) ?")
_AFTER = re.compile(
    r"^(?:\tat |\s*at [\w$.<>/@]+\(|\s*\.\.\. \d+ more|Caused by: |Driver stacktrace|JVM stacktrace|"
    r"=== Streaming Query|== |Traceback \(most|During handling of|The above exception|\s*$)"
)
_CHAINED = re.compile(r"^(?:During handling of the above exception|The above exception was the direct cause)")
_CONDITION = re.compile(r"(?:^|: )\[([A-Z][A-Z0-9_]*(?:\.[A-Z0-9_]+)*)\] (.+)", re.DOTALL)
_OF_QUERY = re.compile(r"^\[STREAM_FAILED\] .*? terminated with exception: ")
_STATE = re.compile(r"\s*SQLSTATE: \w+\s*$")
_LOSS = re.compile(r"ExecutorLostFailure \(executor (\S+) exited [^)]*\)(?: Reason: (.+))?")
_TIMES = re.compile(r"Task \d+ in stage [\d.]+ failed (\d+) times")
_MESSAGE_LINES = 3

_SPARKS_WRAPPERS = re.compile(
    r"^(?:Job aborted|Exception thrown in awaitResult|Task failed|Job \d+ cancelled|\[STREAM_FAILED\]|"
    r"An error occurred while calling |An exception was (?:raised by the Python Proxy|thrown from the Python worker))"
)
_WRAPPERS = frozenset(
    {
        "CompletionException",
        "ExecutionException",
        "InvocationTargetException",
        "PythonException",
        "Py4JException",
        "Py4JJavaError",
        "StreamingQueryException",
        "UncheckedExecutionException",
        "UndeclaredThrowableException",
    }
)
_ITS_CAUSE = re.compile(rf"^{_JAVA}(?:: |$)")


@dataclass(frozen=True)
class Frame:
    """A line of Python code in an exception's traceback."""

    file: str
    line: int
    function: str


@dataclass(frozen=True)
class Cause:
    """One exception of a chain. ``kind`` is the printed name of the exception's class. ``frames`` are the frames of the
    exception's Python traceback."""

    kind: str
    message: str
    frames: tuple[Frame, ...] = ()

    @property
    def name(self) -> str:
        """The name of the class without its package. Kafka's classes get a prefix, because some have the same names as
        Java classes."""
        short = re.split(r"[.$]", self.kind)[-1]
        return f"Kafka's {short}" if self.kind.startswith("org.apache.kafka.") else short

    @property
    def condition(self) -> str:
        """Spark's error condition, such as ``DIVIDE_BY_ZERO``; empty if the exception has none."""
        found = _CONDITION.search(_OF_QUERY.sub("", self.message))
        return found[1] if found is not None else ""

    @property
    def told(self) -> str:
        """The exception in one line. If the exception has one of Spark's error conditions, the line contains the
        condition and its explanation. Otherwise, the line contains the exception's class and message."""
        found = _CONDITION.search(_OF_QUERY.sub("", self.message))
        if found is not None:
            return _STATE.sub("", f"[{found[1]}] {_first(found[2])}").split(" SQLSTATE")[0].strip()
        return f"{self.name}: {_line(self.message)}" if self.message else self.name

    @property
    def is_wrapper(self) -> bool:
        """Whether the exception only says that another exception was raised."""
        short = re.split(r"[.$]", self.kind)[-1]
        return (
            short in _WRAPPERS
            or _SPARKS_WRAPPERS.match(self.message) is not None
            or _ITS_CAUSE.match(self.message) is not None
        ) and not (self.condition and self.condition != "STREAM_FAILED")


@dataclass(frozen=True)
class RootCause:
    """The causes of a failure.

    Attributes:
        causes: the exceptions from the outermost to the deepest, without wrappers. If all exceptions are wrappers,
            ``causes`` contains only the deepest wrapper. Empty if the text has no exceptions.
        loss: how a Spark executor was lost; empty if none was.
        times: how many times Spark has tried the Spark task that failed; 0 if that isn't known.
    """

    causes: tuple[Cause, ...]
    loss: str = ""
    times: int = 0

    @property
    def deepest(self) -> Cause | None:
        return self.causes[-1] if self.causes else None

    def frame_in(self, home: str) -> Frame | None:
        """The innermost frame in one of the user's files below ``home``, the job's folder; None if there is none."""
        for cause in reversed(self.causes):
            for frame in reversed(cause.frames):
                if home and user_files.is_below(home, frame.file):
                    return frame
        return None


def text_of(error: BaseException) -> str:
    """The printed form of an exception and its causes, with Python tracebacks and Java stack traces. Never raises an
    exception."""
    return "\n\n".join(_printed(each, outermost=each is error) for each in links(error))


def links(error: BaseException) -> Iterator[BaseException]:
    """An exception and its causes, from the outermost to the deepest."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen and len(seen) < _MOST_LINKS:
        seen.add(id(current))
        yield current
        current = _behind(current)


def parsed(text: str) -> RootCause:
    """The causes of a failure, found in an exception's text as returned by :func:`text_of`."""
    if len(text) > _LONGEST:
        text = f"{text[: _LONGEST // 2]}\n{text[-_LONGEST // 2 :]}"
    found = [cause for group in _groups([_cut(line) for line in text.split("\n")]) for cause in group]
    kept: dict[tuple[str, str], Cause] = {}
    for cause in found:
        same = kept.pop((cause.kind, cause.message), cause)  # an outer exception quotes the same cause
        kept[cause.kind, cause.message] = cause if cause.frames else same
    causes = list(kept.values())
    meaningful = [cause for cause in causes if not cause.is_wrapper] or causes[-1:]
    loss = _LOSS.search(text)
    times = _TIMES.search(text)
    return RootCause(
        causes=tuple(meaningful),
        loss="" if loss is None else f"executor {loss[1]} was lost" + (f": {loss[2].strip()}" if loss[2] else ""),
        times=int(times[1]) if times is not None else 0,
    )


def _behind(error: BaseException) -> BaseException | None:
    for kept in (getattr(error, "_cause", None), getattr(error, "cause", None), error.__cause__):
        if isinstance(kept, BaseException):
            return kept
    return None if error.__suppress_context__ else error.__context__


def said(error: BaseException) -> str:
    """The exception's own message; empty if it fails to produce one."""
    try:
        return str(error)
    except Exception:  # perhaps the message comes from a Java process that has ended
        return ""


def full_message(error: BaseException) -> str:
    """The exception's own message, followed by the Java stack trace, which PySpark stores separately."""
    text = said(error)
    trace = getattr(error, "_stackTrace", None)
    return f"{text}\n\nJVM stacktrace:\n{trace}" if isinstance(trace, str) and trace not in text else text


def _printed(error: BaseException, outermost: bool) -> str:
    kind, text = type(error), full_message(error)
    name = f"{kind.__module__}.{kind.__qualname__}"
    line = f"{name}: {text}" if text else name
    if error.__traceback__ is not None:
        return f"{_TRACEBACK}\n{''.join(traceback.format_tb(error.__traceback__))}{line}"
    return line if outermost else f"Caused by: {line}"


def _groups(lines: Sequence[str]) -> Iterator[list[Cause]]:
    """For each printed chain of exceptions, yields a list of the causes, from the outermost to the deepest. (Python
    prints the deepest first, Java last.) A yielded list can be empty."""
    group: list[Cause] = []
    frames: list[Frame] | None = None
    chained = False
    for number, raw in enumerate(lines):
        line = _MARGIN.sub("", raw) if raw.lstrip().startswith(("|", "+")) else raw
        following = lines[number + 1 : number + _MESSAGE_LINES]
        if line.rstrip().endswith(_TRACEBACK):
            head = _head(line[: line.rindex(_TRACEBACK)].rstrip(), first=number == 0)
            if head is not None:
                yield group
                group = [Cause(head[0], _first(head[1]))]
            frames = []
        elif frames is None:
            chained = chained or _CHAINED.match(line) is not None
            for kind, message in _heads(line, first=number == 0):
                yield group
                group = [Cause(kind, _message(message, following))]
        elif (frame := _FRAME.match(line)) is not None:
            frames.append(Frame(frame[1], int(frame[2]), frame[3].strip()))
        elif line and not line[0].isspace():
            if (raised := _PYTHON.match(line)) is not None:
                cause = Cause(raised[1], _message(raised[2] or "", following), tuple(frames))
                if not chained:
                    yield group
                    group = []
                group.insert(0, cause)
            for kind, message in _in_task(line):
                yield group
                group = [Cause(kind, _message(message, following))]
            frames, chained = None, False
    yield group


def _heads(line: str, first: bool) -> Iterator[tuple[str, str]]:
    head = _head(line, first)
    if head is not None:
        yield head
    yield from _in_task(line)


def _in_task(line: str) -> Iterator[tuple[str, str]]:
    inner = _IN_TASK.search(line)
    if inner is not None:
        yield inner[1], inner[2] or ""


def _head(line: str, first: bool) -> tuple[str, str] | None:
    found = _CAUSED.match(line) or _BARE.match(line) or (_PYTHON.match(line) if first else None)
    return None if found is None or " " in found[1] else (found[1], found[2] or "")


def _message(first: str, following: Sequence[str]) -> str:
    said = [first.split(f" {_TRACEBACK}", maxsplit=1)[0].removesuffix(_TRACEBACK).rstrip()]
    for line in following:
        if _AFTER.match(line) or _CAUSED.match(line) or _BARE.match(line) or line.endswith(_TRACEBACK):
            break
        said.append(line.strip())
    return "\n".join(each for each in said if each)


def _first(text: str) -> str:
    return text.strip().split("\n")[0]


def _cut(line: str) -> str:
    return line if len(line) <= _LONGEST_LINE else f"{line[: _LONGEST_LINE // 2]} ... {line[-_LONGEST_LINE // 2 :]}"


def _line(text: str) -> str:
    return " ".join(text.split("\n"))
