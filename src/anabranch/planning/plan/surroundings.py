"""What a plan needs in addition to the graph."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from anabranch.grouping.request import Grouper
from anabranch.model.graph import Graph, Node
from anabranch.model.job_model import Matched
from anabranch.model.lane import DEFAULT_SYSTEM
from anabranch.planning import stages
from anabranch.planning.assignment.assignor import Rules
from anabranch.planning.plan.promises import AT_LEAST_ONCE, EXACTLY_ONCE
from anabranch.planning.real_time import RealTime

__all__ = ["Placement", "Surroundings"]


@dataclass(frozen=True)
class Placement:
    """What determines the seat of each task."""

    rules: Rules = field(default_factory=Rules)
    racks: Sequence[str] = ()
    """The racks of the seats. If there are more seats than racks, the racks are reused in turn."""

    replicas: Mapping[str, Mapping[int, Sequence[str | None]]] = field(default_factory=dict)
    """The racks of partitions; see :class:`anabranch.planning.assignment.assignor.Where`."""


@dataclass(frozen=True)
class Surroundings:
    """The settings that a plan needs, and the facts about streams that it needs from their systems."""

    factor: int
    containers: int
    grouper_name: str
    grouper: Grouper

    partitions: dict[str, int]
    """The partition count of each existing stream."""

    systems: dict[str, str]
    """The system of each stream that settings bind to a system; see :func:`anabranch.planning.stages.systems`."""

    default_system: str = DEFAULT_SYSTEM
    """The system of the streams that aren't in ``systems``."""

    patterns: Mapping[str, Matched] = field(default_factory=dict)
    """The inputs that stand for several streams; see :func:`anabranch.planning.patterns.found`."""

    at_least_once: Collection[str] = ()
    """The outputs whose settings ask for an at-least-once promise. In real-time mode, all outputs have this promise."""

    real_time: RealTime | None = None
    """The settings of real-time mode; None if the job runs in micro-batches."""

    lanes: int = 1
    """How many lanes a stateless group can have in each container."""

    bases: Mapping[str, int] = field(default_factory=dict)
    """For an existing job: the partition count that each stream had when state for its keys was first written. Keys
    that had the same task at that count must still have the same task.
    """

    placement: Placement = field(default_factory=Placement)

    def delivered(self, stream: str) -> str:
        """The promise of an output to a stream or a table."""
        return AT_LEAST_ONCE if self.real_time is not None or stream in self.at_least_once else EXACTLY_ONCE

    def read(self, graph: Graph, source: Node) -> tuple[str, ...]:
        """The streams that a source reads. If the source is bound to a pattern, these are the streams that match the
        pattern. Otherwise, the source reads one stream.
        """
        stream = stages.stream_of(graph, source)
        return self.patterns[stream].streams if stream in self.patterns else (stream,)
