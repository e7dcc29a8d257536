"""What a lane failed for: its inputs, an operator, or something else."""

from __future__ import annotations

from dataclasses import replace

from anabranch.container import blame, failures, root_cause
from anabranch.container.failures import Failure, Remedy
from anabranch.container.lane.attempt import Attempt
from anabranch.errors import AnabranchError

__all__ = ["attributed"]


def attributed(attempt: Attempt, error: Exception) -> Failure:
    """What is to be told of an error that ended an attempt, and what may help."""
    if isinstance(error, AnabranchError):
        return failures.failure(error)
    ours = failures.is_ours(error)
    wrong = None if ours else _wrong_inputs(attempt)
    if wrong is not None:
        return replace(failures.failure(wrong), remedy=Remedy.NONE)
    query = attempt.query
    failed = failures.failure(error, query.home if query is not None else "")
    if ours or query is None:
        return failed
    operator = blame.explained(
        root_cause.text_of(error), failed.what.rstrip("."), query.operators, attempt.pending_ranges()
    )
    if operator is None:
        return failed
    return replace(failed, what=operator.what, cure=operator.cure, remedy=Remedy.ATTEMPT)


def _wrong_inputs(attempt: Attempt) -> AnabranchError | None:
    """What is wrong with the inputs, if that is it: what Spark says of a stream that is gone is hard to read."""
    try:
        if attempt.folder_in_use is not None:
            attempt.inputs.check(attempt.folder_in_use)
    except AnabranchError as wrong:
        return wrong
    except Exception:  # the folder may be what failed
        return None
    return None
