"""The readers of all streams of a log, for the rest of anabranch."""

from __future__ import annotations

from collections.abc import Mapping

from anabranch.systems.embedded.log import Log
from anabranch.systems.readers import Reader, ReaderLag

__all__ = ["LogReaders"]


class LogReaders:
    """The readers of one log; see :class:`anabranch.systems.readers.Readers`."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def of(self, stream: str) -> Mapping[str, Reader]:
        return self._log.readers(stream).all()

    def hold_all(self, stream: str, job: str) -> None:
        self._log.readers(stream).hold_all(job)

    def hold(self, stream: str, job: str, positions: Mapping[int, int]) -> None:
        self._log.readers(stream).hold(job, positions)

    def advance(self, stream: str, job: str, positions: Mapping[int, int], revision: str) -> bool:
        return self._log.readers(stream).advance(job, positions, revision)

    def forget(self, stream: str, job: str, revision: str | None = None) -> None:
        self._log.readers(stream).forget(job, revision)

    def lags(self, stream: str) -> list[ReaderLag]:
        return self._log.lags(stream)
