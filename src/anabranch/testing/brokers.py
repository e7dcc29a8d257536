"""Prepares test runs on a shared broker. Everything that a run creates on the broker has a unique name, and is deleted
after the run.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import msgspec

from anabranch.config import Settings, StreamSettings
from anabranch.errors import AnabranchError
from anabranch.model.graph import Graph
from anabranch.operators.rules import is_boundary
from anabranch.planning import stages
from anabranch.testing.streams import KafkaStreams

__all__ = ["Names", "names_back", "opened", "settings_on"]

_BEGIN = "anabranch-test"

# Producers in Spark's workers outlive the run. On a broker that creates topics automatically, a producer that asked for
# the metadata of a deleted topic would create the topic again.
_ASK_ONCE = {"topic.metadata.refresh.interval.ms": "-1"}
_ASK_RARELY = {"metadata.max.age.ms": "3600000"}


@dataclass(frozen=True)
class Names:
    """Translates between the names in a test and the names on the broker, where the names of jobs and topics begin with
    ``run``."""

    run: str

    @classmethod
    def new(cls) -> Names:
        return cls(f"{_BEGIN}-{secrets.token_hex(4)}")

    def there(self, name: str) -> str:
        """The name that a job or a topic of the test has on the broker."""
        return f"{self.run}-{name}"

    def here(self, text: str) -> str:
        """``text`` with all names on the broker replaced by the test's own names."""
        return text.replace(f"{self.run}-", "")

    def job(self, graph: Graph) -> Graph:
        """The graph of the test's job, with the job's name on the broker."""
        return msgspec.structs.replace(graph, job=self.there(graph.job))

    def streams(self, graph: Graph) -> dict[str, str]:
        """Maps the name of each stream of the renamed job (see :meth:`job`) to the stream's name in the test.
        Intermediate and dead-letter streams are included."""
        named = [node for node in graph.nodes if "stream" in node.args or is_boundary(node)]
        found = {stages.stream_of(self.job(graph), node): stages.stream_of(graph, node) for node in named}
        found |= {name: name for node in graph.nodes if "of" in node.args for name in [node.args["of"]["stream"]]}
        aside = {stages.dead_letters_of(stream): stages.dead_letters_of(name) for stream, name in found.items()}
        return {**aside, **found}


def settings_on(broker: str, settings: Settings, names: Names, graph: Graph) -> Settings:
    """The settings of a run on a broker. Every stream of the job is bound to a topic with a unique name, even if the
    given settings bind it to a pattern."""
    kafka = settings.systems.kafka
    on_it = {
        "bootstrap_servers": broker,
        "client": {**_ASK_ONCE, **_without_servers(kafka.client)},
        "spark": {**_ASK_RARELY, **_without_servers(kafka.spark)},
    }
    systems = {"default": "kafka", "kafka": kafka.model_copy(update=on_it)}
    streams: dict[str, StreamSettings] = {}
    for stream, name in names.streams(graph).items():
        given = settings.streams.get(name, StreamSettings())
        one = {"system": "kafka", "topic": names.there(name), "pattern": None}
        streams[stream] = given.model_copy(update=one)
    return settings.model_copy(
        update={"systems": settings.systems.model_copy(update=systems), "streams": streams},
    )


def _without_servers(properties: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in properties.items() if name != "bootstrap.servers"}


@contextmanager
def opened(settings: Settings, names: Names) -> Iterator[KafkaStreams]:
    """A context manager that provides access to the run's streams. When the context ends, the run's topics and consumer
    groups are deleted."""
    topics = {stream: bound.topic for stream, bound in settings.streams.items() if bound.topic is not None}
    streams = KafkaStreams(settings.systems.kafka, topics)
    try:
        yield streams
    except BaseException:
        with suppress(AnabranchError):  # the test should report the first error
            streams.clear(names.run)
        raise
    streams.clear(names.run)


@contextmanager
def names_back(names: Names) -> Iterator[None]:
    """A context manager that translates errors from its block: the test's own names replace the names on the broker."""
    try:
        yield
    except AnabranchError as error:
        error.what, error.cure = names.here(error.what), names.here(error.cure)
        error.args = (error.what, error.cure)
        raise
