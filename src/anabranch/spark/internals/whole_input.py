"""Makes Python workers accept the input of a Spark task as complete only if it ends with Spark's end mark.

A Spark task is ended early if its batch is broken off, or if one of its workers has died. The pipes to the Spark task's
workers are then closed. If a pipe is closed between two Arrow batches, pyarrow mistakes this for the end of the input,
and without this module, the worker would commit its partial result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import IO, Any

import pyarrow as pa
from pyspark.sql.pandas.serializers import ArrowStreamSerializer

from anabranch.spark.internals.surface import PythonName, Surface

__all__ = ["SURFACE", "CutShortError", "insist", "probe", "whole"]

SURFACE = Surface(
    "whole_input",
    "committing nothing of a task that ended before it was complete",
    [PythonName("pyspark.sql.pandas.serializers", "ArrowStreamSerializer.load_stream")],
    always=True,
)
probe = SURFACE.probe

Load = Callable[[Any, IO[bytes]], Iterator[pa.RecordBatch]]


class CutShortError(Exception):
    """The input of a Spark task is incomplete, because the Spark task was ended early. The Spark task's results must
    not count."""


class _Watched:
    """Wraps a stream for pyarrow. ``is_over`` says whether the stream has returned fewer bytes than were requested."""

    closed = False

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.is_over = False

    def read(self, size: int = -1) -> bytes:
        found = self._stream.read(size)
        self.is_over = self.is_over or len(found) < size
        return found


def whole(load: Load) -> Load:
    """A function like ``load`` that raises CutShortError if the stream ends without the end mark."""

    def load_whole(serializer: Any, stream: IO[bytes]) -> Iterator[pa.RecordBatch]:
        watched: Any = _Watched(stream)
        yield from load(serializer, watched)
        if watched.is_over:
            raise CutShortError("the input of the task has stopped before its end")

    return load_whole


def insist() -> None:
    """Apply :func:`whole` to all Arrow streams that PySpark reads in this process and its forks."""
    ArrowStreamSerializer.load_stream = whole(ArrowStreamSerializer.load_stream)  # type: ignore[method-assign, assignment]
