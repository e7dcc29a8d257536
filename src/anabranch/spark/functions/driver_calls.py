"""Calls those functions of a job that make DataFrames in the driver."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anabranch.spark.internals import debug_lines

__all__ = ["called"]


def called(function: Callable[..., Any], argument: object) -> Any:
    """The result of a function of the job. While it runs, PySpark records which lines make columns.

    Raises:
        RuntimeError: the function has raised SystemExit, or another exception that isn't an Exception. In a thread of
            Spark, such an exception would end the thread without an answer to Spark, which would wait forever.
    """
    try:
        with debug_lines.noted():
            return function(argument)
    except (Exception, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise RuntimeError(f"the function raised {type(error).__name__}") from error
