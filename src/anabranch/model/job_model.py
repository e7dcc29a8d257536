"""The job model: which tasks a generation of a deployment has, and in which container seat each of them runs."""

from __future__ import annotations

import re

from anabranch.model.document import Document
from anabranch.model.ssp import SSP
from anabranch.model.task import Task


class ContainerModel(Document, frozen=True, kw_only=True):
    """A seat: a place in the job that container processes take one after another. ``tasks``: task names per stage."""

    seat: str
    tasks: dict[str, tuple[str, ...]]
    rack: str | None = None


class Matched(Document, frozen=True, kw_only=True):
    """The streams of an input that is bound to a pattern, in the order in which they appeared.

    ``pattern``: a regular expression for the whole name; all streams are in ``system``.
    """

    system: str
    pattern: str
    streams: tuple[str, ...]

    def matches(self, name: str) -> bool:
        """Whether a stream, ``system/stream``, belongs to this input."""
        system, _, stream = name.partition("/")
        return system == self.system and re.fullmatch(self.pattern, stream) is not None


class StageModel(Document, frozen=True, kw_only=True):
    """A stage's tasks, its input streams in order, and its key columns (none: the raw message key).

    ``base``: for each partition, the one under which the state of its keys was first written. An entry stays when its
    stream is no longer read; in a stateless stage, there are none. ``patterns``: the inputs that are bound to patterns,
    by the job's name for them.
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
    """The model of a generation. ``run_id`` in JSON is the deployment (SEP-31's name for it).

    ``lanes``: how many lanes a group of stateless operators has in each container. ``request``: the id of the request
    that led to the generation. ``undoes``: the generation that it undoes. ``rewound``: the lanes that are new in it
    because the job was rewound. ``expands``: the streams that have more partitions than in the previous generation.
    ``replaces``: the deployment from whose lanes its first lanes continue; 0: none. ``again``: the deployment whose
    version it repeats; 0: it is a new version.
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
        """The seat of each task, by stage and name."""
        return {
            each.stage: {name: seat.seat for seat in self.containers for name in seat.tasks.get(each.stage, ())}
            for each in self.stages
        }
