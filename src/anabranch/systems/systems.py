"""The systems of a job, by name, and the system of each stream."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from anabranch.config import Settings
from anabranch.config.systems import ONLY_SOME
from anabranch.errors import ConfigError, NotFoundError
from anabranch.model.job_model import Matched
from anabranch.model.lane import Lane
from anabranch.systems import registry
from anabranch.systems.contract import System
from anabranch.tables import opening
from anabranch.tables.contract import Owner, Table

__all__ = ["Systems"]


class Systems:
    """anabranch's own systems, and the systems that the settings name. A system doesn't connect before it is used.
    ``job`` is '' outside a job.

    Raises:
        ConfigError: two streams are bound to one topic.
    """

    def __init__(self, settings: Settings, job: str = "") -> None:
        self._settings = settings
        self._job = job
        self._opened: dict[str, System] = {}
        _check_topics(settings)

    def __reduce__(self) -> tuple[Any, ...]:
        return Systems, (self._settings, self._job)

    def named(self, name: str) -> System:
        """The system with the name ``name``.

        Raises:
            ConfigError: there is no such system; the system's class or settings aren't valid; or a stream that is bound
                to the system has a setting that the system doesn't support.
        """
        if name in self._opened:
            return self._opened[name]
        output = next((output for output, each in self._settings.outputs.items() if each.to == name), None)
        if output is not None and name not in self._settings.systems.sections:
            raise ConfigError(
                f"{output!r} is a table, outputs.{output}, not a stream",
                "a job can only write a table: read it with other tools",
            )
        kind = registry.class_of(name, self._settings)
        _check_streams(name, kind, self._settings)
        return self._opened.setdefault(name, kind.opened(name, self._settings, self._job))

    @property
    def all(self) -> list[System]:
        """anabranch's own systems, and those that the settings name."""
        return [self.named(name) for name in self._settings.systems.sections]

    def counts(self, name: str, streams: Iterable[str]) -> dict[str, int]:
        """The partition counts of all streams that a system lists, and of the existing streams in ``streams``. Streams
        that aren't listed are looked up by name, because a system might not list streams that its user isn't allowed
        to see. Raises AnabranchError if the user isn't allowed to look up a stream, or if the system doesn't answer.
        """
        system = self.named(name)
        counts = system.counts()
        for stream in set(streams) - counts.keys():
            with suppress(NotFoundError):
                counts[stream] = system.partitions(stream)
        return counts

    def check_matches(self, matched: Matched) -> None:
        """Raise an error if a pattern matches a stream that can't be described; see :meth:`System.undescribed`. Without
        this check, the pattern's input would lack the stream, and nobody would notice."""
        system = self.named(matched.system)
        for stream in system.undescribed():
            if matched.matches(f"{matched.system}/{stream}"):
                with suppress(NotFoundError):
                    system.partitions(stream)

    def absent(self, streams: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """The streams in ``streams`` that don't exist, as pairs of system and stream. For the errors, see
        :meth:`counts`.
        """
        several = sorted(set(streams))
        there = {name: self.counts(name, (s for at, s in several if at == name)) for name, _ in several}
        return [(name, stream) for name, stream in several if stream not in there[name]]

    def racks(self, streams: Iterable[str]) -> dict[str, dict[int, tuple[str | None, ...]]]:
        """The result of :meth:`System.racks` for each of ``streams``, which are named ``system/stream``. A stream is
        left out if it doesn't exist, or if its system has no racks."""
        found = {}
        for name in streams:
            system, stream = name.split("/")
            with suppress(NotFoundError):
                racks = self.named(system).racks(stream)
                if racks:
                    found[name] = dict(racks)
        return found

    def fence(self, lane: Lane, epoch: int, *, new: bool | None) -> None:
        """Fence a lane's exactly-once outputs to streams; see :meth:`System.fence`."""
        for system in self._exact(lane):
            system.fence(lane, epoch, new)

    def recover(self, lane: Lane, epoch: int, *, new: bool | None) -> None:
        """End what an earlier process of a lane has left unfinished in the outputs; see :meth:`System.recover`."""
        for system in self._exact(lane):
            system.recover(lane, epoch, new)

    def withdraw(self, lane: Lane, epoch: int, *, new: bool | None) -> int:
        """Withdraw a lane's right to write to exactly-once streams; see :meth:`System.withdraw`. Returns the number of
        the lane's last batch that an exactly-once output or a table contains after the call, completely or partly; -1
        if there is no such batch.
        """
        held = max((system.withdraw(lane, epoch, new) for system in self._exact(lane)), default=-1)
        return max(held, self.published(lane))

    def seen(self, lane: Lane) -> int:
        """The last batch that is known to be in an exactly-once output stream of a running lane; -1 if none. See
        :meth:`System.seen`."""
        return max((system.seen(lane) for system in self._exact(lane)), default=-1)

    def published(self, lane: Lane) -> int:
        """The number of a lane's last batch that an exactly-once output or a table contains, completely or partly; -1
        if there is no such batch.
        """
        written = sorted({lane.system(stream) for stream in lane.outputs if not self.is_table(stream)})
        found = [self.named(name).published(lane) for name in written]
        return max([*found, self.in_tables(lane)])

    def _exact(self, lane: Lane) -> list[System]:
        plain = {stream for stream in lane.outputs if self._settings.is_plain(stream)}
        exact = {*lane.dead_letters.values(), *(stream for stream in lane.outputs if stream not in plain)}
        return [self.named(name) for name in sorted({lane.system(s) for s in exact if not self.is_table(s)})]

    def is_table(self, output: str) -> bool:
        """Whether the output with the name ``output`` goes to a table rather than to a stream."""
        return output in self._settings.outputs

    def table(self, output: str) -> Table:
        """The table of an output. Raises ConfigError for invalid settings."""
        return opening.opened(output, self._settings.outputs[output])

    def tables(self, lane: Lane) -> dict[str, Table]:
        """The tables that a lane writes, by output."""
        return {output: self.table(output) for output in sorted(lane.outputs) if self.is_table(output)}

    def fence_tables(self, lane: Lane, epoch: int, *, new: bool | None, foreign: bool) -> None:
        """Fence a lane's tables; see :meth:`Table.fence`. Tables whose class the user has written are fenced only if
        ``foreign`` is True."""
        for output, settings in self._settings.outputs.items():
            if output in lane.outputs and (foreign or not opening.is_foreign(settings)):
                self.table(output).fence(Owner(lane.job, lane.id, epoch), new)

    def in_tables(self, lane: Lane) -> int:
        """The last batch that a lane has committed to any table; -1 if none."""
        return max((table.last(lane.job, lane.id) for table in self.tables(lane).values()), default=-1)

    def bound(self) -> dict[str, str]:
        """The bindings in the settings. Each stream that is bound to a system is mapped to the system's name. Each
        output that is a table is mapped to the kind of table.
        """
        tables = {output: each.to for output, each in self._settings.outputs.items()}
        streams = {stream: each.system for stream, each in self._settings.streams.items() if each.system is not None}
        return {**tables, **streams}

    @property
    def streams_by_topic(self) -> dict[str, str]:
        """The streams that the settings bind to topics, keyed by topic."""
        return {topic: stream for stream, topic in _topics(self._settings).items()}

    def check_topics(self, used: Mapping[str, str], read: Collection[str]) -> None:
        """Raise ConfigError if the settings bind the topic of a job's stream to another stream. A job can't read such a
        stream, because the offsets in a checkpoint folder name only the topic. A job can write such a stream unless
        the job also uses the other stream.

        Args:
            used: the system of each stream that the job reads or writes.
            read: the streams that the job reads.
        """
        for stream, system in sorted(used.items()):
            other = self.streams_by_topic.get(stream, stream)
            if other == stream or stream in _topics(self._settings):
                continue
            if self.bound().get(other, self.default) == system and (stream in read or other in used):
                raise ConfigError(
                    f"the job uses the topic {stream!r} under its own name, and settings bind it to the stream "
                    f"{other!r}, too",
                    f"use {other!r} in the job, which may read it several times, or take out streams.{other}.topic",
                )

    @property
    def default(self) -> str:
        """The system of the user's streams that the settings don't bind to any system."""
        return self._settings.systems.default

    def of(self, stream: str) -> System:
        """The system of a user's stream."""
        return self.named(self.bound().get(stream, self.default))

    def writers(self, name: str, job: str, streams: Sequence[str]) -> dict[str, str]:
        """The lanes of a job that are recorded as writers of any of the outputs ``streams``. The keys are lane ids.
        Each value says where the lane is recorded, as text for error messages. ``name`` is the outputs' system or kind
        of table. See :meth:`System.writers` and :meth:`Table.writers`.
        """
        tables = [output for output in streams if self.is_table(output)]
        if not tables:
            return self.named(name).writers(job, streams)
        found = [(lane, output) for output in tables for lane in self._writers(output, job)]
        return {lane: f"output {output!r}" for lane, output in sorted(found)}

    def _writers(self, output: str, job: str) -> list[str]:
        try:
            return self.table(output).writers(job)
        except NotFoundError:
            return []

    def on_data_loss(self, stream: str) -> str:
        """What a lane does if records of an input stream were deleted before the lane could read them, or if an output
        stream has lost records: ``fail`` or ``earliest``.
        """
        bound = self._settings.streams.get(self.bound_as(stream))
        return "fail" if bound is None else bound.on_data_loss

    def bound_as(self, stream: str) -> str:
        """The name of the section that applies to a stream: the name of an input, if the stream has no section of its
        own and matches the input's pattern; otherwise the stream's own name.
        """
        taking = (name for name, pattern in self._settings.patterns.items() if re.fullmatch(pattern, stream))
        return stream if stream in self._settings.streams else next(taking, stream)

    @property
    def used(self) -> list[System]:
        """The systems to which streams are bound, and the default system."""
        bound = {each.system for each in self._settings.streams.values() if each.system is not None}
        return [self.named(name) for name in sorted({self.default, *bound})]


def _topics(settings: Settings) -> dict[str, str]:
    return {stream: each.topic for stream, each in settings.streams.items() if each.topic is not None}


def _check_topics(settings: Settings) -> None:
    topics = _topics(settings)
    topic, count = Counter(topics.values()).most_common(1)[0] if topics else ("", 0)
    if count > 1:
        several = sorted(stream for stream, each in topics.items() if each == topic)
        raise ConfigError(
            f"the streams {', '.join(several)} are all bound to the topic {topic!r}",
            "one stream for a topic is enough: a job may read it several times",
        )


def _check_streams(name: str, kind: type[System], settings: Settings) -> None:
    for stream, each in settings.streams.items():
        odd = next((s for s in ONLY_SOME if s in each.model_fields_set and s not in kind.stream_settings), None)
        if odd is not None and (each.system or settings.systems.default) == name:
            raise ConfigError(f"streams.{stream}.{odd} has no meaning in the system {name}", "take it out")
