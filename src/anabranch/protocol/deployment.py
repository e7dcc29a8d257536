"""Versions of a job: what starts one, what containers need to run it, deploy and rollback."""

from __future__ import annotations

from typing import Any

from anabranch.formats import Format
from anabranch.model.document import Document
from anabranch.model.graph import Graph
from anabranch.model.job_model import JobModel
from anabranch.model.lane import Lane
from anabranch.model.outline import Basis, Outline

__all__ = ["DeployRequest", "DeployResult", "Program", "RollbackRequest", "RunningDeployment", "StartRequest"]


class Program(Document, frozen=True, kw_only=True):
    """What a container in another process needs to run a deployment, besides its model and lanes.

    ``artifact`` is the sha256 of the job's code, ``file`` the job file in it. ``settings`` are those of the one who
    started the job, with absolute paths; secrets are references. ``schemas`` map operators (by node) to what comes out
    of them, as Spark's JSON. ``cores``: so many tasks must be able to run at once (0: any number will do).
    """

    artifact: str
    file: str
    settings: dict[str, Any]
    schemas: dict[str, str]
    cores: int = 0


class StartRequest(Document, frozen=True, kw_only=True):
    """A planned deployment, handed over to be started. ``lanes`` are all new; ``model.run_id`` is 0: not given yet.

    ``fingerprint`` maps what must be the same for a resume (graph, factor, …) to its hash or value.
    ``formats`` are those of the streams that aren't JSON: they stay as they are now for as long as the deployment.
    ``until_caught_up``: lanes end when their inputs are at the ends that were noted at the start.
    ``program`` is for containers in other processes; None: the one that starts it is the only container, and
    ``settings`` are what the coordinator must know of its settings. ``reset_state``: after a drain, no state is kept.
    """

    graph: Graph
    model: JobModel
    lanes: tuple[Lane, ...]
    fingerprint: dict[str, str]
    formats: dict[str, Format] = {}
    promises: dict[str, str] = {}
    until_caught_up: bool = False
    program: Program | None = None
    settings: dict[str, Any] = {}
    reset_state: bool = False


class RunningDeployment(Document, frozen=True, kw_only=True):
    """A deployment as a container that comes to it is told of it. ``formats`` as in :class:`StartRequest`."""

    job: str
    deployment: int
    program: Program
    formats: dict[str, Format] = {}


class DeployRequest(Document, frozen=True, kw_only=True):
    """Another version of a job is to follow without a drain. ``drop_state``: operators whose state may go.
    ``request``, ``dry`` and ``now`` as in :class:`anabranch.protocol.commands.ScaleRequest`."""

    start: StartRequest
    drop_state: tuple[str, ...] = ()
    request: str = ""
    dry: bool = False
    now: bool = False
    brief: bool = False
    expect: Basis | None = None


class RollbackRequest(Document, frozen=True, kw_only=True):
    """The version before the present one is to follow it; fields as in :class:`DeployRequest`."""

    drop_state: tuple[str, ...] = ()
    request: str = ""
    dry: bool = False
    now: bool = False
    brief: bool = False
    expect: Basis | None = None


class DeployResult(Document, frozen=True, kw_only=True):
    """What comes of it: the deployment that follows, and the one whose version it is (its own: a new one); the lanes
    that are closed and that go on from them; none: the same wish was heard before.

    ``notes``: what changes for those who use its outputs or its state. ``pause`` as in
    :class:`anabranch.protocol.commands.ScaleResult`.
    """

    deployment: int
    version_of: int
    closing: tuple[Lane, ...] = ()
    lanes: tuple[Lane, ...] = ()
    notes: tuple[str, ...] = ()
    pause: float = 0.0
    basis: Basis | None = None
    outline: Outline | None = None
