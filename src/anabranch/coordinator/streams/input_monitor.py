"""Looks up partition counts and racks of jobs' inputs, and has the inputs checked periodically."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from anabranch import config as configuration
from anabranch import logs
from anabranch.errors import NotFoundError
from anabranch.model.job_model import Matched
from anabranch.systems.systems import Systems
from anabranch.throttle import LastTold

__all__ = ["Counting", "InputMonitor", "Locating", "counted", "located"]

_EVERY = 1.0

log = logs.get_logger()

Counting = Callable[[str, Mapping[str, Any], Iterable[str], Iterable[Matched]], Mapping[str, int]]
"""The type of a function that counts partitions, such as :func:`counted`."""

Locating = Callable[[str, Mapping[str, Any], Iterable[str]], Mapping[str, Mapping[int, Sequence[str | None]]]]
"""The type of a function that looks up the racks of partitions, such as :func:`located`."""


class Looking(Protocol):
    def look(self) -> None: ...


def counted(
    job: str, settings: Mapping[str, Any], streams: Iterable[str], patterns: Iterable[Matched] = ()
) -> dict[str, int]:
    """The partition count of each stream; 0 if the stream doesn't exist. The keys have the form ``system/stream``.

    Args:
        settings: the settings of the job.
        streams: the streams to look up, in the form ``system/stream``.
        patterns: the job's patterns. The partitions of all streams that match one of the patterns are counted, too.

    Raises:
        AnabranchError: a system doesn't answer, or a stream that matches a pattern can't be described.
    """
    systems, patterns = Systems(configuration.of_job(job, settings), job), tuple(patterns)
    found = {}
    for name in streams:
        system, stream = name.split("/")
        try:
            found[name] = systems.named(system).partitions(stream)
        except NotFoundError:
            found[name] = 0
    for matched in patterns:
        systems.check_matches(matched)
    for system in sorted({each.system for each in patterns}):
        its = {f"{system}/{stream}": count for stream, count in systems.named(system).counts().items()}
        found |= {name: count for name, count in its.items() if any(each.matches(name) for each in patterns)}
    return found


def located(
    job: str, settings: Mapping[str, Any], streams: Iterable[str]
) -> Mapping[str, Mapping[int, Sequence[str | None]]]:
    """The racks of the partitions of streams: see :meth:`Systems.racks`.

    Args:
        settings: the settings of the job.

    Raises:
        AnabranchError: a system doesn't answer.
    """
    return Systems(configuration.of_job(job, settings), job).racks(streams)


class InputMonitor:
    """Inside ``with``, makes ``looking`` check the inputs of jobs at intervals of ``every`` seconds."""

    def __init__(self, looking: Looking, every: float = _EVERY) -> None:
        self._looking = looking
        self._every = every
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="anabranch-inputs", daemon=True)

    def __enter__(self) -> InputMonitor:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(self._every)

    def _run(self) -> None:
        told = LastTold()
        while not self._ended.wait(self._every):
            try:
                self._looking.look()
                told.over()
            except Exception as error:
                if told.is_new(repr(error)):
                    log.exception("inputs could not be looked at; it is tried again")
