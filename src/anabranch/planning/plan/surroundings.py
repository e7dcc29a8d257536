"""What a plan needs to know besides the graph."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from anabranch.assignment.seating import Rules
from anabranch.grouping.request import Grouper
from anabranch.model.graph import Graph, Node
from anabranch.model.job_model import Matched
from anabranch.planning import stages
from anabranch.planning.plan.promises import AT_LEAST_ONCE, EXACTLY_ONCE
from anabranch.planning.real_time import RealTime

__all__ = ["Surroundings"]


@dataclass(frozen=True)
class Surroundings:
    """What a plan needs to know besides the graph: settings and what the systems say.

    ``partitions``: counts of the streams that exist; ``systems``: of the streams that are bound to one, others live in
    ``default_system`` (see :func:`stages.systems`); ``patterns``: the inputs that are several streams (see
    :func:`anabranch.planning.patterns.found`), whose systems are known, too; ``at_least_once``: the outputs with that
    delivery. ``real_time``: the settings that real-time mode goes by, None in micro-batches. ``lanes``: how many a
    group without state has in each container. ``bases``: of a job that is there already, with how many partitions state
    of streams was first written: its keys are together if they were then. ``rules``: how tasks get their seats;
    ``racks``: those of the seats, in turn; ``replicas``: those of partitions, see
    :class:`anabranch.assignment.seating.Where`.
    """

    factor: int
    containers: int
    grouper_name: str
    grouper: Grouper
    partitions: dict[str, int]
    systems: dict[str, str]
    default_system: str = "embedded"
    patterns: Mapping[str, Matched] = field(default_factory=dict)
    at_least_once: Collection[str] = ()
    real_time: RealTime | None = None
    lanes: int = 1
    bases: Mapping[str, int] = field(default_factory=dict)
    rules: Rules = field(default_factory=Rules)
    racks: Sequence[str] = ()
    replicas: Mapping[str, Mapping[int, Sequence[str | None]]] = field(default_factory=dict)

    def delivered(self, stream: str) -> str:
        """What the output into a stream promises."""
        return AT_LEAST_ONCE if self.real_time is not None or stream in self.at_least_once else EXACTLY_ONCE

    def read(self, graph: Graph, source: Node) -> tuple[str, ...]:
        """The streams that a source is of."""
        stream = stages.stream_of(graph, source)
        return self.patterns[stream].streams if stream in self.patterns else (stream,)
