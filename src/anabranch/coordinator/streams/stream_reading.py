"""Opens the system of a job's stream for a user who wants to see records."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from anabranch import config as configuration
from anabranch.errors import ConflictError
from anabranch.protocol.deployment import Program
from anabranch.systems.contract import System
from anabranch.systems.systems import Systems

__all__ = ["StreamOpener"]


class StreamOpener:
    """Opens systems for one user at a time, and refuses other users, to limit the load on a coordinator.

    Args:
        systems: the systems of the job that runs in this process. None if no job runs here; each job's stored settings
            then name its systems.
        what: the beginning of the message to a refused user, such as "dead letters are".
    """

    def __init__(self, systems: Systems | None, what: str) -> None:
        self._systems = systems
        self._what = what
        self._busy = threading.Lock()

    def streams(self, job: str, program: Program | None, outputs: Mapping[str, str]) -> dict[str, str]:
        """A job's outputs that are streams. If the job's settings aren't available here, streams can't be told from
        tables, so all outputs are returned. ``outputs`` and the result map each output's name to its system's name.
        """
        systems = self._systems or (None if program is None else _systems_of(job, program, ""))
        return {name: of for name, of in outputs.items() if systems is None or not systems.is_table(name)}

    @contextmanager
    def opened(self, job: str, program: Program | None, stream: str, default: str) -> Iterator[System]:
        """A context with the system of a stream. If the job's settings bind the stream to a system, that system is
        opened; otherwise, the system ``default`` is opened. Inside ``with``, other users are refused.

        Raises:
            ConflictError: another user is reading. Or the job ran in one process with its coordinator, so the job's
                settings aren't available here.
        """
        systems = self._systems or _systems_of(job, program, stream)
        if not self._busy.acquire(blocking=False):
            raise ConflictError(f"{self._what} read for somebody else now", "ask again in a moment")
        try:
            yield systems.named(systems.bound().get(stream, default))
        finally:
            self._busy.release()


def _systems_of(job: str, program: Program | None, stream: str) -> Systems:
    if program is None:
        raise ConflictError(
            f"job {job!r} ran in one process, and its settings aren't here",
            f"read them where it runs: anabranch stream cat {stream}",
        )
    return Systems(configuration.of_job(job, program.settings), job)
