"""Attributes a lane's failure to its cause: the lane's inputs or folder, an operator, or something else.

Some of Spark's errors quote a piece of SQL or a line of code. The quoted text shows which operator has failed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from anabranch.container import error_text, surroundings
from anabranch.container.checkpoint import damage
from anabranch.container.error_text import Failure, Remedy
from anabranch.container.lane.attempt import Attempt
from anabranch.errors import AnabranchError, NotFoundError, OperatorError
from anabranch.model.graph import Node
from anabranch.spark import root_cause

__all__ = ["attributed", "operator_error"]

_SQL = re.compile(r"== SQL[^\n]*==\n(.+?)\n[ \t]*\^+", re.DOTALL)
_DATAFRAME = re.compile(r"== DataFrame ==\n.*? was called from\n([^\n]+)", re.DOTALL)
_CURE = "write it so that no row can fail (try_cast, try_divide, try_element_at), or filter such rows before"

Ranges = Mapping[str, tuple[int, int]]


def attributed(attempt: Attempt, error: BaseException) -> Failure:
    """The failure that is reported for the error that ended an attempt."""
    return attempt.lane_folders.explained(_cause(attempt, error))


def _cause(attempt: Attempt, error: BaseException) -> Failure:
    if isinstance(error, AnabranchError):
        return error_text.failure(error)
    ours = error_text.is_ours(error)
    wrong = None if ours else _wrong_inputs(attempt)
    if wrong is not None:
        return replace(error_text.failure(wrong), remedy=Remedy.NONE)
    query = attempt.query
    failed = error_text.failure(error, query.job.home if query is not None else "")
    if ours or query is None:
        return failed
    operator = operator_error(
        root_cause.text_of(error), failed.what.rstrip("."), query.plan.operators, attempt.pending_ranges()
    )
    if operator is None:
        return failed
    named = replace(failed, what=operator.what, cure=operator.cure, remedy=Remedy.ATTEMPT, awaits="", unless_full=None)
    return replace(failed, what=operator.what, unless_full=named) if failed.awaits == surroundings.DISK.name else named


def _wrong_inputs(attempt: Attempt) -> AnabranchError | None:
    """A problem with the inputs or the folder; None if no problem is found. The problem is reported instead of Spark's
    error, because Spark's messages about missing streams are hard to read."""
    try:
        if attempt.folder_in_use is not None:
            attempt.inputs.check(attempt.folder_in_use)
            if attempt.started is None or not attempt.started.isActive:  # perhaps the query couldn't be stopped
                damage.check(attempt.folder_in_use, attempt.lane)
    except AnabranchError as wrong:
        return wrong if _is_of_inputs(wrong) else None
    except Exception:  # perhaps it is the folder that has failed
        return None
    return None


def _is_of_inputs(error: AnabranchError) -> bool:
    """Whether an error says what is wrong with a stream or the folder. If the result is False, the error
    only says that the stream or the folder can't be examined now, for example because a broker can't be reached."""
    is_known = isinstance(error, NotFoundError) or error_text.is_final(error)
    return is_known and error_text.failure(error).remedy is not Remedy.WAIT


def operator_error(text: str, first: str, nodes: Sequence[Node], ranges: Ranges) -> OperatorError | None:
    """The error for the operator that caused a failure in SQL or in a ``transform``; None if the operator isn't known.

    Args:
        text: the complete text of Spark's error.
        first: the reason in one line.
        nodes: the lane's operators, one of which may have caused the failure.
        ranges: for each SSP, the first offset and the end offset of the batch that failed. The message of the
            returned error names these ranges.
    """
    sql = [found.strip() for found in _SQL.findall(text)]
    lines = [found.strip() for found in _DATAFRAME.findall(text)]
    operator = next((n for fragment in sql for n in nodes if any(fragment in text for text in _texts(n.args))), None)
    if operator is None and (sql or lines):
        transforms = [node for node in nodes if node.kind == "transform"]
        operator = transforms[0] if len(transforms) == 1 else None
    if operator is None:
        return None
    at = f" at {lines[0]}" if lines and not sql else ""
    read = ", ".join(f"offsets {a} to {b - 1} of {ssp}" for ssp, (a, b) in sorted(ranges.items()) if b > a)
    on = f", on {read}" if read else ""
    return OperatorError(f"{operator.kind} {operator.name!r} ({operator.where}): {first}{at}{on}", _CURE)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts(each)
