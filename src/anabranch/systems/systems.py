"""The systems of a job, by name, and which of them each stream lives in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from anabranch.config import Settings
from anabranch.errors import ConfigError
from anabranch.model.lane import Lane
from anabranch.systems.contract import System
from anabranch.systems.embedded import EmbeddedSystem, foreign_writers
from anabranch.systems.kafka import markers
from anabranch.systems.kafka.system import KafkaSystem

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
        raise ConfigError(f"there is no system {name!r}", "the systems are embedded and kafka")

    def bound(self) -> dict[str, str]:
        """The system of each stream that is bound to one."""
        return {stream: each.system for stream, each in self._settings.streams.items() if each.system is not None}

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
        there = [stream for stream in streams if stream in self.embedded.streams()]
        found = [(lane, stream) for stream in there for lane in foreign_writers(self.embedded.log, stream, job)]
        return {lane: f"stream {stream!r}" for lane, stream in sorted(found)}

    def marks(self, lane: Lane) -> bool:
        """Whether a lane writes to Kafka exactly once, and so leaves markers there."""
        exact = {
            *lane.dead_letters.values(),
            *(stream for stream in lane.outputs if not self._settings.is_plain(stream)),
        }
        return any(lane.system(stream) == "kafka" for stream in exact)

    def on_data_loss(self, stream: str) -> str:
        """What a lane does when records of a stream are gone that it hasn't read: ``fail`` or ``earliest``."""
        bound = self._settings.streams.get(stream)
        return "fail" if bound is None else bound.on_data_loss

    @property
    def used(self) -> list[System]:
        """The systems that a stream is bound to, and the default one."""
        return [self.named(name) for name in sorted({self.default, *self.bound().values()})]


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
