"""The job model: which tasks a generation of a deployment has, and in which container seat each of them runs."""

from __future__ import annotations

import re

from anabranch.model.document import Document
from anabranch.model.ssp import SSP
from anabranch.model.task import Task


class ContainerModel(Document, frozen=True, kw_only=True):
    """A seat: the place in the job that successive container processes take. ``tasks`` are task names per stage."""

    seat: str
    tasks: dict[str, tuple[str, ...]]
    rack: str | None = None


class Matched(Document, frozen=True, kw_only=True):
    """The streams of an input that is bound to a pattern, in the order in which they came.

    ``pattern``: a regular expression for the whole of a name; all of them live in ``system``.
    """

    system: str
    pattern: str
    streams: tuple[str, ...]

    def matches(self, name: str) -> bool:
        """Whether a stream, ``system/stream``, is one for this input."""
        system, _, stream = name.partition("/")
        return system == self.system and re.fullmatch(self.pattern, stream) is not None


class StageModel(Document, frozen=True, kw_only=True):
    """A stage's tasks, its input streams in order, and its key columns (none: the raw message key).

    ``base``: for each partition, the one under which the state of its keys was first written. It stays when a stream
    leaves; none in a stage without state. ``patterns``: the inputs that are bound to one, by the name that the job has
    for them.
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
    """All of a generation. ``run_id`` in JSON is the deployment (SEP-31's name for it).

    ``lanes``: how many a group of operators without state has in each container.
    ``request``: the id that the wish for it had; ``undoes``: the generation from which it goes back to the one before.
    ``rewound``: the lanes that are new in it because the job was rewound.
    ``expands``: the streams that have more partitions in it than in the one before.
    ``replaces``: the deployment whose lanes its first lanes go on from; 0: there is none.
    ``again``: the deployment whose version it is once more; 0: it is a version of its own.
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
