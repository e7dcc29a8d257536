"""Describes what a lane runs: a group of operators, with the job's settings."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pyspark.sql import SparkSession

from anabranch.api.timers import PROCESSING_TIME
from anabranch.config import Settings
from anabranch.event_time import durations, windows
from anabranch.event_time.windows import Window
from anabranch.formats import JSON, Format
from anabranch.model.graph import Graph, Node
from anabranch.model.lane import Lane
from anabranch.model.ssp import SSP
from anabranch.operators import rule
from anabranch.operators.rules import is_boundary, is_by_intake, is_shuffle, late_of, on_late
from anabranch.planning import groups, plan, stages
from anabranch.planning.groups import Group
from anabranch.planning.stages import Stage
from anabranch.planning.transition import after_drain
from anabranch.spark.operators import late_rows
from anabranch.spark.operators.frames_of_operators import Context
from anabranch.spark.query.pruning import Needs
from anabranch.systems.systems import Systems

__all__ = ["LanePlan", "LoadedJob"]

_DRAINING_SECONDS = 60.0
_ASIDE, _FAIL = "dead-letter", "fail"
_UNKNOWN = ("transform", "foreach_batch")
"""Operators that pass DataFrames to functions of the job. Nothing limits how long work on such a DataFrame takes."""


@dataclass(frozen=True)
class LoadedJob:
    """The parts of a job that all its lanes share in this process.

    Attributes:
        functions: the job's functions, by the node of the operator.
        schemas: the columns after each operator, by node.
        formats: the format of each stream whose format isn't JSON.
        home: the job's folder.
        needs: which columns of a source a group needs, by group and source. Lanes add to this mapping when they have
            determined the columns.
    """

    spark: SparkSession
    settings: Settings
    graph: Graph
    functions: Mapping[int, Callable[..., Any]]
    schemas: Mapping[int, Any]
    formats: Mapping[str, Format]
    home: str
    needs: Needs = field(default_factory=dict)


@dataclass(frozen=True)
class LanePlan:
    """The part of a job's graph that a lane runs. ``until`` has the end offsets at which the lane ends, by whole SSP.
    If a system can't stop at an offset (Kafka), the lane's last batches may read beyond the end offsets.
    """

    job: LoadedJob
    lane: Lane
    until: Mapping[SSP, int]

    @property
    def graph(self) -> Graph:
        return self.job.graph

    @property
    def settings(self) -> Settings:
        return self.job.settings

    @property
    def message_patience(self) -> float:
        """How many seconds a function may work on one message before ``anabranch drain`` stops waiting. The drain
        itself continues. Infinite if the job has a time limit for messages, which ends longer work anyway.
        """
        return _DRAINING_SECONDS if math.isinf(self.message_limit) else math.inf

    @property
    def message_limit(self) -> float:
        """How many seconds a function may work on one message; infinite without ``[job] message_timeout``."""
        timeout = self.settings.job.message_timeout
        return math.inf if timeout is None else durations.parse(timeout) / 1000

    @property
    def stateful(self) -> bool:
        """Whether the lane keeps state."""
        return self.group.stateful is not None

    @property
    def empties(self) -> bool:
        """Whether a drain removes everything from the lane's state."""
        return self.stateful and not after_drain.keeps_state(self.graph, self.lane.group)

    @property
    def sequential(self) -> bool:
        """Whether the lane has functions, and all of them are processors. In a Spark task, a processor works on one key
        after another, because Spark passes it the rows of one key at a time.
        """
        functions = [node for node in self.group.nodes if rule(node).function]
        return bool(functions) and all(node.kind == "process" for node in functions)

    @property
    def ticks(self) -> bool:
        """Whether the lane has timers of processing time. If so, a batch begins every second, or every
        ``[job] interval`` if that is longer, even without records.
        """
        stateful = self.group.stateful
        return stateful is not None and stateful.args.get("timers") == PROCESSING_TIME

    @property
    def own(self) -> frozenset[str]:
        """The job's intermediate streams."""
        return frozenset(stages.stream_of(self.graph, node) for node in self.graph.nodes if is_boundary(node))

    @property
    def real_time(self) -> bool:
        """Whether the lane runs in Spark's real-time mode. (A lane that must stop at given offsets runs in
        micro-batches even if the job's trigger is "real-time".)
        """
        return self.settings.job.trigger == "real-time" and not self.until

    @property
    def operators(self) -> tuple[Node, ...]:
        """The operators that the lane runs."""
        return self.group.nodes

    @property
    def by_intake(self) -> bool:
        """Whether the lane has windows of processing time. If so, the time at which a batch was planned determines the
        windows of its records.
        """
        return self.group.stateful is not None and is_by_intake(self.group.stateful)

    @property
    def window(self) -> Window | None:
        """The lane's windows of processing time; None if it has no such windows."""
        stateful = self.group.stateful
        return windows.of_builtins(stateful.args["window"]) if stateful is not None and self.by_intake else None

    @cached_property
    def stage(self) -> Stage:
        return next(s for s in stages.cut(self.graph) if s.id == self.lane.stage)

    @cached_property
    def _groups(self) -> tuple[Group, ...]:
        """All groups of the lane's stage."""
        written = [stages.stream_of(self.graph, s) for s in self.stage.sinks if s.kind != "foreach_batch"]
        return groups.cut(self.graph, self.stage, {stream: self._kind(stream) for stream in written})

    def _kind(self, stream: str) -> str:
        return plan.kind(self.where[stream], self.is_plain(stream))

    @cached_property
    def systems(self) -> Systems:
        """The systems of the lane's streams."""
        return Systems(self.settings, self.lane.job)

    @cached_property
    def where(self) -> Mapping[str, str]:
        return stages.systems(self.graph, self.systems.bound(), self.systems.default)

    @cached_property
    def group(self) -> Group:
        return next(group for group in self._groups if group.name == self.lane.group)

    @property
    def looks_for_null_keys(self) -> bool:
        """Whether each batch must be searched for records whose rows would reach the lane's state with a null key.
        False in each of these cases:

        - The lane has no state, or a row with a null key fails the lane anyway.
        - A shuffle or a function may have changed keys, so a row's null key needn't come from its record.
        """
        stateful = self.group.stateful
        shuffled = any(is_shuffle(node) for node in self.group.nodes)
        if stateful is None or shuffled or self.settings.job.on_null_key == _FAIL:
            return False
        return not any(i in self.bare_context.changed for i in stateful.inputs)

    @cached_property
    def bare_context(self) -> Context:
        graph, stage = self.graph, self.stage
        changed = stages.changed(graph, stage)
        return Context(self.job.functions, stages.key_columns(graph, stage), stages.event_times(graph), changed)

    def format_of(self, stream: str) -> Format:
        return self.job.formats.get(stream, JSON)

    def is_plain(self, stream: str) -> bool:
        return self.settings.is_plain(stream)

    @property
    def calls_functions(self) -> bool:
        """Whether the lane calls functions of the job. If so, it isn't known in advance how long a record takes."""
        return any(rule(node).function or node.kind in _UNKNOWN for node in self.group.nodes)

    @property
    def late_rows(self) -> dict[str, str]:
        """For each operator whose late rows become dead letters, the name that the slots for these late rows contain.
        The keys are the labels under which the late rows are rejected (see :func:`late_rows.label_of`).
        """
        return {late_rows.label_of(node): late_of(node) for node in self.group.nodes if on_late(node) == _ASIDE}
