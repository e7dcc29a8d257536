"""Makes the error text for a failed lane. The text is anabranch's own message, or the root cause if there is no such
message. Also determines what may help the lane to recover.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from anabranch.container import surroundings
from anabranch.errors import (
    AnabranchError,
    ConflictError,
    DamagedError,
    FencedError,
    LogError,
    OperatorError,
    StateError,
    UnsupportedFormatError,
    UsageError,
)
from anabranch.spark import root_cause
from anabranch.spark.functions.error_text import UNPICKLABLE
from anabranch.spark.root_cause import Cause, RootCause
from anabranch.systems import registry

__all__ = ["Failure", "Remedy", "failure", "is_fenced", "is_final", "is_of_java", "is_ours"]

_FINAL = (ConflictError, LogError, StateError, UnsupportedFormatError, UsageError)
_OURS = re.compile(r"anabranch\.errors\.\w+: (.+?)(?=\n\s*\n|\n\tat |\n\s*at \S+\(|\Z)", re.DOTALL)
_OF_OPERATOR = re.compile(
    rf"anabranch\.errors\.{OperatorError.__name__}: (?!join_table [^\n]* can't read its table: )|"
    r"^== (?:SQL|DataFrame)\b",
    re.MULTILINE,
)
"""Matches the error text of a failed function or expression of the job. Doesn't match the error text of a
``join_table`` that couldn't read its table."""
_NO_ANSWER = re.compile(r"Py4J\w*Error|Connection(?:Refused|Reset)Error|BrokenPipeError|EOFError")
_LONGEST = 600
_MOST_REASONS = 2
_NEEDS_LOG = "the whole stack trace is in the log: JOB.spark.log for anabranch run, stderr for a container"


class Remedy(enum.Enum):
    """What may help a failed lane."""

    NONE = "none"
    """Another attempt would fail in the same way, because lanes, streams, settings and files don't change on their
    own."""
    ATTEMPT = "another attempt"
    """The cause is known, and lies outside the Java process: in data, a function, another system or a disk."""
    WAIT = "time"
    """The cause is outside the job (a disk, a broker, a database). The lane continues once the cause is gone, unless
    the lane has already waited too long."""
    PROCESS = "a new process"
    """The cause is unknown, or lies in the Java process. Further attempts in the same process may therefore fail, too.
    """


@dataclass(frozen=True)
class Failure:
    """A failure, as the user sees it.

    Attributes:
        what: anabranch's own message or the root cause, in one line.
        reasons: lines that say what led to the failure, or where it was noticed.
        cure: what the user can do.
        remedy: what may help without the user.
        awaits: what the lane waits for, if waiting is the remedy; otherwise empty.
        unless_full: the failure to report instead of this one if no disk is full; None if disks needn't be checked.
    """

    what: str
    reasons: tuple[str, ...] = ()
    cure: str = ""
    remedy: Remedy = Remedy.PROCESS
    awaits: str = ""
    unless_full: Failure | None = None

    @property
    def told(self) -> str:
        """The whole failure as text, in the format of anabranch's own errors."""
        return "\n  ".join(each for each in (self.what, *self.reasons, self.cure) if each)


@dataclass(frozen=True)
class _Kind:
    """A kind of failure with a known remedy. ``of`` recognizes its causes. ``what`` describes the root cause in
    anabranch's words, if Spark's words are hard to read."""

    of: Callable[[Cause], bool]
    cure: str
    remedy: Remedy = Remedy.ATTEMPT
    what: str = ""


def _says(pattern: str) -> Callable[[Cause], bool]:
    wanted = re.compile(pattern)
    return lambda cause: wanted.search(f"{cause.kind}: {cause.message}") is not None


def _without_java(cause: Cause) -> bool:
    """Whether a cause says that the Java process no longer answers, or is ending."""
    in_py4j = any("/py4j/" in frame.file for frame in cause.frames)
    return _says(r"Py4JNetworkError|Answer from Java side is empty|SparkContext was shut down|stopped SparkContext")(
        cause
    ) or (in_py4j and cause.name in ("ConnectionRefusedError", "ConnectionResetError", "BrokenPipeError"))


_INFRASTRUCTURE = re.compile(
    r"^(?:STREAM_FAILED|INTERNAL_ERROR|TASK_WRITE_FAILED|FAILED_READ_FILE|FAILED_EXECUTE_UDF|PYTHON_|STDS_|"
    r"CANNOT_LOAD_|CANNOT_WRITE_|CANNOT_CREATE_|CONCURRENT_STREAM_LOG_UPDATE|UNABLE_TO_)"
)
"""Error conditions of Spark that show where something failed, but not why. The deeper cause is reported instead."""

_OF_SYSTEMS = _Kind(lambda _: False, "")
"""A placeholder in ``_KINDS``. :func:`_kinds` replaces it with the failures that the clients of systems report."""

_KINDS = (
    _Kind(
        _says(r"No space left on device|Disk quota exceeded|ENOSPC|not enough space"),
        "make room on that disk; the lane continues from this batch",
    ),
    _Kind(_says(r"Read-only file system|Input/output error"), "see what is wrong with that disk, and mount it again"),
    _Kind(
        _says(r"PermissionError|AccessDeniedException|AccessControlException|Permission denied"),
        "let the process's user read and write there",
    ),
    _OF_SYSTEMS,
    _Kind(
        _says(r"(?:ModuleNotFoundError|ImportError)"),
        "install it where Python workers run, in the Python that runs anabranch, or put it next to the job file",
    ),
    _Kind(
        _says(r"PicklingError|cannot pickle|Can't pickle|Can't get attribute|could not be serialized"),
        UNPICKLABLE,
    ),
    _Kind(
        _says(r"MemoryError|OutOfMemoryError|GC overhead limit|exited with code 137|[Mm]emory limit"),
        "give Spark more ([spark] memory), or let batches be smaller ([job] max_rows_per_batch)",
        Remedy.PROCESS,
    ),
    _Kind(
        _says(r"Python worker exited unexpectedly"),
        "see the log for what the worker has printed, and the kernel's for a process killed for its memory",
        Remedy.PROCESS,
        "a Python worker has crashed, or was killed",
    ),
    _Kind(
        _says(r"worker failed to connect back|Timed out while waiting for the Python"),
        "too much was started at once for this machine: give it more cores, or the job fewer lanes",
        Remedy.PROCESS,
        "a Python process of Spark's didn't start in time",
    ),
    _Kind(
        _without_java,
        "see the kernel's log for a process killed for its memory; give it less to do, or more memory ([spark] memory)",
        Remedy.PROCESS,
        "the Java process of Spark has ended",
    ),
    _Kind(
        _says(
            r"OptionalDataException|StreamCorruptedException|NoClassDefFoundError|NoSuchMethodError|ClassCastException"
        ),
        f"the Java process is broken, or has jars that don't fit together; {_NEEDS_LOG}",
        Remedy.PROCESS,
    ),
    _Kind(
        _says(r"ExecutorLostFailure"),
        "see the log of that executor, and of the cluster's manager, for why it has ended",
        Remedy.PROCESS,
    ),
    _Kind(
        _says(r"FileNotFoundError|NoSuchFileException|FileNotFoundException"),
        "restore that file, or see why it was removed",
    ),
    _Kind(
        _says(r"CSV header does not conform to the schema"),
        "the table's file was replaced while it was read; the lane continues from this batch",
    ),
    _Kind(_says(r"\bOSError: \[Errno"), "see what is wrong with that file, disk or connection"),
)


def _kinds() -> Iterator[_Kind]:
    for kind in _KINDS:
        if kind is _OF_SYSTEMS:
            yield from (_Kind(_says(pattern), cure) for pattern, cure in registry.error_cures())
        else:
            yield kind


def failure(error: BaseException, home: str = "") -> Failure:
    """Describe an error as the failure that the user sees.

    If the error's text names a known problem outside the job, such as a full disk or an unreachable broker, the
    failure's remedy is to wait. For an error in the job's own code, the remedy is to wait only if the text names a full
    disk. The text may be wrong about the disk. For this reason, :attr:`Failure.unless_full` contains the failure to
    report if no disk turns out to be full.

    Args:
        home: the job's folder. If the stack trace has a frame in one of the user's files in this folder, the job's own
            code failed, and the failure names the line of code. If the error quotes one of anabranch's own errors, no
            line is named. If ``home`` is empty, stack frames aren't searched.
    """
    failed = _failure(error, home)
    if isinstance(error, DamagedError | FencedError | UsageError):
        return failed
    text = root_cause.text_of(error)
    awaited = surroundings.awaited(text)
    of_job = awaited is not None and _is_of_job(text, home)
    if awaited is None or (awaited is not surroundings.DISK and of_job):
        return failed
    unless_full = failed if of_job else None
    return replace(failed, cure=awaited.cure, remedy=Remedy.WAIT, awaits=awaited.name, unless_full=unless_full)


def _is_of_job(text: str, home: str) -> bool:
    """Whether the job's own code (a function or an expression) has failed. The error text of such a failure is weak
    evidence of a full disk or an unreachable broker, because the text may quote any value of a record. The text may
    also describe a problem with a service that the code calls. Whether such a service will recover isn't known."""
    if _OF_OPERATOR.search(text) is not None:
        return True
    return bool(home) and root_cause.parsed(text).frame_in(home) is not None


def _failure(error: BaseException, home: str) -> Failure:
    if isinstance(error, AnabranchError):
        what, _, cure = str(error).partition("\n  ")
        return Failure(what, cure=cure, remedy=Remedy.NONE if is_final(error) else Remedy.ATTEMPT)
    text = root_cause.text_of(error)
    if (ours := _ours(text)) is not None:
        what, *rest = ours
        return Failure(what, tuple(rest), remedy=Remedy.NONE if is_final(error) else Remedy.ATTEMPT)
    return _of(root_cause.parsed(text), home) or Failure(type(error).__name__, cure=_NEEDS_LOG)


def is_ours(error: BaseException) -> bool:
    """Whether an error's message quotes one of anabranch's own errors."""
    return _OURS.search(root_cause.said(error)) is not None


def is_fenced(error: BaseException) -> bool:
    """Whether an error, perhaps of a Python worker, says that this process has lost its seat or the lane."""
    return isinstance(error, FencedError) or f"anabranch.errors.{FencedError.__name__}" in root_cause.said(error)


def is_final(error: BaseException) -> bool:
    """Whether another attempt would fail in the same way, because the error's cause (such as a lane, a stream, a
    setting or a file) doesn't change on its own.
    """
    if isinstance(error, _FINAL):
        return True
    said = root_cause.said(error)
    return any(f"anabranch.errors.{each.__name__}: " in said for kind in _FINAL for each in _family(kind))


def is_of_java(error: BaseException) -> bool:
    """Whether the error may have been caused by the end of the Java process."""
    return _NO_ANSWER.search(root_cause.text_of(error)) is not None


def _family(kind: type[AnabranchError]) -> Iterator[type[AnabranchError]]:
    yield kind
    for each in kind.__subclasses__():
        yield from _family(each)


def _ours(text: str) -> list[str] | None:
    found = _OURS.search(text)
    if found is None:
        return None
    what, *rest = found.group(1).strip().split("\n")
    return [what, *[line.strip() for line in rest if line.startswith("  ") and "File " not in line]]


def _of(root: RootCause, home: str) -> Failure | None:
    if root.deepest is None:
        return None
    coded = [cause for cause in root.causes if cause.condition and not _INFRASTRUCTURE.match(cause.condition)]
    matches = ((kind, cause) for cause in reversed(root.causes) for kind in _kinds() if kind.of(cause))
    kind, known = next(matches, (None, root.deepest))
    headline = coded[-1] if coded else known
    frame = root.frame_in(home)
    at = f" at {frame.file.removeprefix(home).lstrip('/')}:{frame.line} in {frame.function}" if frame else ""
    behind = (
        [root.deepest]
        if headline is not root.deepest and root.deepest.message
        else [each for each in reversed(root.causes) if each is not headline and each.message][:_MOST_REASONS]
    )
    reasons = [f"{'because of' if headline is not root.deepest else 'in'} {_short(cause.told)}" for cause in behind]
    if root.loss and not headline.is_wrapper:
        reasons.append(_short(root.loss))
    if root.times > 1:
        reasons.append(f"Spark has tried its task {root.times} times")
    if kind is None and frame is not None:
        kind = _Kind(bool, "fix that line; the lane continues from this batch at the next run")
    if kind is None and coded:
        kind = _Kind(bool, "")
    told = root.loss if root.loss and headline.is_wrapper else headline.told
    if kind is not None and kind.what:
        told = kind.what
        reasons.insert(0, f"because of {_short(headline.told.split('. Consider setting')[0])}")
    what = _short(told) + at
    if kind is None:
        return Failure(what, tuple(reasons), _NEEDS_LOG, Remedy.PROCESS)
    return Failure(what, tuple(reasons), kind.cure, kind.remedy)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."
