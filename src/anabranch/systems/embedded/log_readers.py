"""Implements :class:`anabranch.systems.readers.Readers` for all streams of an embedded log."""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping

from anabranch import logs
from anabranch.errors import LogError
from anabranch.systems.embedded.log import Log
from anabranch.systems.embedded.readers import StreamReaders
from anabranch.systems.readers import Reader, ReaderLag
from anabranch.systems.retention import Retention

__all__ = ["LogReaders"]

_MAY_NOT_WRITE = (errno.EACCES, errno.EPERM, errno.EROFS)

log = logs.get_logger()


class LogReaders:
    """The readers of one log; see :class:`anabranch.systems.readers.Readers`."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def of(self, stream: str, job: str) -> Reader | None:
        return self._log.readers(stream).of(job)

    def hold_all(self, stream: str, job: str) -> None:
        self._register(stream, job, lambda readers: readers.hold_all(job))

    def hold(self, stream: str, job: str, positions: Mapping[int, int]) -> None:
        self._register(stream, job, lambda readers: readers.hold(job, positions))

    def _register(self, stream: str, job: str, hold: Callable[[StreamReaders], None]) -> None:
        """Register a job as a reader of a stream by calling ``hold``.

        Raises:
            LogError: ``hold`` has failed. There is one exception: if the stream has no retention, and this process has
                no right to write to the stream's folder, only a warning is logged. (Without a retention, unread records
                can't be deleted.)
        """
        try:
            hold(self._log.readers(stream))
        except LogError as error:
            cause = error.__cause__
            may_not = isinstance(cause, OSError) and cause.errno in _MAY_NOT_WRITE
            if not may_not or self._log.describe(stream).retention != Retention():
                raise
            log.warning(
                "the job can't register as a reader of a stream, which it has no right to write to: if the stream gets "
                "a retention, records may be deleted before the job has read them",
                job=job,
                stream=stream,
                error=error.what,
            )

    def advance(self, stream: str, job: str, positions: Mapping[int, int], revision: str) -> bool:
        return self._log.readers(stream).advance(job, positions, revision)

    def forget(self, stream: str, job: str, revision: str | None = None) -> bool:
        return self._log.readers(stream).forget(job, revision)

    def lags(self, stream: str) -> list[ReaderLag]:
        return self._log.lags(stream)
