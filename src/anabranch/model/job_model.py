"""The job model: the tasks of a generation, and the seat of each task."""

from __future__ import annotations

import re

from anabranch.model.document import Document
from anabranch.model.ssp import SSP
from anabranch.model.task import Task


class ContainerModel(Document, frozen=True, kw_only=True):
    """A seat: a container's place in the job. ``tasks`` maps each stage to the names of the seat's tasks."""

    seat: str
    tasks: dict[str, tuple[str, ...]]
    rack: str | None = None


class Matched(Document, frozen=True, kw_only=True):
    """The streams of an input that is bound to a pattern, in the order in which the job began to read the streams.
    Streams that the job began to read together are sorted by name.

    ``pattern`` is the regular expression that a stream's whole name must match. All these streams are in ``system``.
    """

    system: str
    pattern: str
    streams: tuple[str, ...]

    def matches(self, name: str) -> bool:
        """Whether a stream belongs to this input. ``name`` has the form ``system/stream``."""
        system, _, stream = name.partition("/")
        return system == self.system and re.fullmatch(self.pattern, stream) is not None


class StageModel(Document, frozen=True, kw_only=True):
    """A stage of a job model.

    Attributes:
        key: the columns of the stage key; empty for the raw message key.
        inputs: the input streams, as ``system/stream``, in the order of the stage's sources.
        base: for each partition that isn't broadcast, the partition under which the state of its keys was first
            written. Includes partitions of streams that the stage no longer reads. Empty in a stateless stage.
        patterns: the inputs that are bound to patterns. The keys are the job's names for these inputs.
    """

    stage: str
    key: tuple[str, ...]
    stateful: bool
    grouper: str
    inputs: tuple[str, ...]
    tasks: tuple[Task, ...]
    base: dict[str, SSP] = {}
    patterns: dict[str, Matched] = {}


class JobModel(Document, frozen=True, kw_only=True):
    """The model of a generation.

    Attributes:
        run_id: the number of the deployment. In JSON, the field is called ``runId``, as in Samza's SEP-31.
        lanes: how many lanes a stateless group can have in each container.
        request: the id of the request that led to the generation.
        undoes: the generation that this generation undoes; 0 if none.
        rewound: the lanes that are new because the job was rewound.
        expands: the streams that have gained partitions since the previous generation, and the streams that the job
            begins to read because they match a pattern.
        replaces: the deployment from whose lanes the first lanes of this deployment continue; 0 if none.
        again: the first deployment of this deployment's version; 0 if the version is new.
    """

    job: str
    run_id: int
    generation: int
    factor: int
    stages: tuple[StageModel, ...]
    containers: tuple[ContainerModel, ...]
    lanes: int = 1
    request: str = ""
    undoes: int = 0
    rewound: tuple[str, ...] = ()
    expands: tuple[str, ...] = ()
    replaces: int = 0
    again: int = 0

    def seats_of_tasks(self) -> dict[str, dict[str, str]]:
        """For each stage, a map from the names of the stage's tasks to their seats."""
        return {
            each.stage: {name: seat.seat for seat in self.containers for name in seat.tasks.get(each.stage, ())}
            for each in self.stages
        }
