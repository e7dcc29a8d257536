"""The systems of a job, by name, and which of them each stream lives in."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from anabranch.config import Settings
from anabranch.errors import ConfigError, NotFoundError
from anabranch.model.lane import Lane
from anabranch.systems.contract import System
from anabranch.systems.embedded import EmbeddedSystem, foreign_writers
from anabranch.systems.kafka import markers
from anabranch.systems.kafka.system import KafkaSystem
from anabranch.tables import opening
from anabranch.tables.contract import Owner, Table

__all__ = ["Systems"]


class Systems:
    """All systems that settings name. Nothing is connected to before it is asked something. ``job`` may be ''.

    Raises:
        ConfigError: two streams are bound to one topic.
    """

    def __init__(self, settings: Settings, job: str = "") -> None:
        self._settings = settings
        self._job = job
        self.embedded = EmbeddedSystem(settings.systems.embedded.root)
        self.kafka = KafkaSystem(settings.systems.kafka, _topics(settings), f"{job}-controls" if job else "")

    def __reduce__(self) -> tuple[Any, ...]:
        return Systems, (self._settings, self._job)

    def named(self, name: str) -> System:
        """A system by its name. Raises ConfigError if there is none."""
        if name == "embedded":
            return self.embedded
        if name == "kafka":
            return self.kafka
        output = next((output for output, each in self._settings.outputs.items() if each.to == name), None)
        if output is not None:
            raise ConfigError(
                f"{output!r} is a table, outputs.{output}, and no stream",
                "read it with what reads such tables; a job can only write it",
            )
        raise ConfigError(f"there is no system {name!r}", "the systems are embedded and kafka")

    def racks(self, streams: Iterable[str]) -> dict[str, dict[int, tuple[str | None, ...]]]:
        """The racks of the partitions of streams, by ``system/stream``, as :meth:`KafkaSystem.racks` gives them; of
        those that are in no racks, or aren't there, nothing."""
        found = {}
        for name in streams:
            system, stream = name.split("/")
            if system == "kafka":
                with suppress(NotFoundError):
                    found[name] = self.kafka.racks(stream)
        return found

    def is_table(self, output: str) -> bool:
        """Whether what is written under a name goes to a table, and not to a stream."""
        return output in self._settings.outputs

    def table(self, output: str) -> Table:
        """The table of an output. Raises ConfigError for settings that are wrong."""
        return opening.opened(output, self._settings.outputs[output])

    def tables(self, lane: Lane) -> dict[str, Table]:
        """The tables that a lane writes, by output."""
        return {output: self.table(output) for output in sorted(lane.outputs) if self.is_table(output)}

    def fence_tables(self, lane: Lane, epoch: int, *, new: bool | None, foreign: bool) -> None:
        """Stop every incarnation of a lane below ``epoch`` at its tables. ``foreign``: also those of a user's class.

        Raises:
            FencedError: a process with a higher epoch has the lane.
            StateError: see :meth:`Table.fence`.
        """
        for output, settings in self._settings.outputs.items():
            if output in lane.outputs and (foreign or not opening.is_foreign(settings)):
                self.table(output).fence(Owner(lane.job, lane.id, epoch), new)

    def in_tables(self, lane: Lane) -> int:
        """The last batch that a lane has committed to any table, -1 if none."""
        return max((table.last(lane.job, lane.id) for table in self.tables(lane).values()), default=-1)

    def bound(self) -> dict[str, str]:
        """The system of each stream that is bound to one; of an output into a table, its kind."""
        tables = {output: each.to for output, each in self._settings.outputs.items()}
        streams = {stream: each.system for stream, each in self._settings.streams.items() if each.system is not None}
        return {**tables, **streams}

    @property
    def streams_by_topic(self) -> dict[str, str]:
        """The streams whose topics have other names."""
        return {topic: stream for stream, topic in _topics(self._settings).items()}

    @property
    def default(self) -> str:
        """The system of streams that aren't bound to one."""
        return self._settings.systems.default

    def of(self, stream: str) -> System:
        """The system that a stream of the user's lives in."""
        return self.named(self.bound().get(stream, self.default))

    def writers(self, name: str, job: str, streams: Sequence[str]) -> dict[str, str]:
        """The lanes of a job that a system remembers to have written there, each with where it was found."""
        if name == "kafka":
            return dict.fromkeys(sorted(markers.lanes(self._settings.systems.kafka, job)), f"the cluster {self.kafka}")
        tables = [output for output in streams if self.is_table(output)]
        if tables:
            found = [(lane, output) for output in tables for lane in self._writers(output, job)]
            return {lane: f"output {output!r}" for lane, output in sorted(found)}
        there = [stream for stream in streams if stream in self.embedded.streams()]
        found = [(lane, stream) for stream in there for lane in foreign_writers(self.embedded.log, stream, job)]
        return {lane: f"stream {stream!r}" for lane, stream in sorted(found)}

    def _writers(self, output: str, job: str) -> list[str]:
        try:
            return self.table(output).writers(job)
        except NotFoundError:
            return []

    def marks(self, lane: Lane) -> bool:
        """Whether a lane writes to Kafka exactly once, and so leaves markers there."""
        exact = {
            *lane.dead_letters.values(),
            *(stream for stream in lane.outputs if not self._settings.is_plain(stream)),
        }
        return any(lane.system(stream) == "kafka" for stream in exact)

    def on_data_loss(self, stream: str) -> str:
        """What a lane does when records of a stream are gone that it hasn't read: ``fail`` or ``earliest``."""
        bound = self._settings.streams.get(self.bound_as(stream))
        return "fail" if bound is None else bound.on_data_loss

    def bound_as(self, stream: str) -> str:
        """The name under which settings bind a stream: maybe that of a pattern."""
        taking = (name for name, pattern in self._settings.patterns.items() if re.fullmatch(pattern, stream))
        return stream if stream in self._settings.streams else next(taking, stream)

    @property
    def used(self) -> list[System]:
        """The systems that a stream is bound to, and the default one."""
        bound = {each.system for each in self._settings.streams.values() if each.system is not None}
        return [self.named(name) for name in sorted({self.default, *bound})]


def _topics(settings: Settings) -> dict[str, str]:
    topics = {stream: each.topic or stream for stream, each in settings.streams.items() if each.topic is not None}
    topic, count = Counter(topics.values()).most_common(1)[0] if topics else ("", 0)
    if count > 1:
        several = sorted(stream for stream, each in topics.items() if each == topic)
        raise ConfigError(
            f"the streams {', '.join(several)} are all bound to the topic {topic!r}",
            "one stream for a topic is enough: a job may read it several times",
        )
    return topics
