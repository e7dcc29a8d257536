"""Versions of a job: what starts one, what containers need to run it, deploy and rollback."""

from __future__ import annotations

from typing import Any

from anabranch.formats import Format
from anabranch.model.document import Document
from anabranch.model.graph import Graph
from anabranch.model.job_model import JobModel
from anabranch.model.lane import Lane
from anabranch.protocol.commands import ChangeRequest, ChangeResult

__all__ = ["DeployRequest", "DeployResult", "Program", "RollbackRequest", "RunningDeployment", "StartRequest"]


class Program(Document, frozen=True, kw_only=True):
    """What a container in another process needs to run a deployment, in addition to the deployment's model and
    lanes."""

    artifact: str
    """The SHA-256 of the job's code."""
    file: str
    """The job file within the code."""
    settings: dict[str, Any]
    """The settings of the user who started the job, with absolute paths; secrets are references."""
    schemas: dict[str, str]
    """The schema after each operator, by its node, as Spark's JSON."""
    cores: int = 0
    """The number of tasks that must be able to run at once; 0: any."""


class StartRequest(Document, frozen=True, kw_only=True):
    """A planned deployment that should be started."""

    graph: Graph
    model: JobModel
    """Its run id is 0, because the coordinator assigns the number."""
    lanes: tuple[Lane, ...]
    """All of them are new."""
    fingerprint: dict[str, str]
    """What must be the same for the job to be continued (graph, factor, …), each as a hash or value."""
    formats: dict[str, Format] = {}
    """The formats of the streams that aren't JSON. They don't change during the deployment."""
    promises: dict[str, str] = {}
    """The delivery guarantee of each output, by operator."""
    until_caught_up: bool = False
    """Lanes end when they reach those ends of their inputs that were noted at the start."""
    program: Program | None = None
    """For containers in other processes; None: the process that starts the job is the only container."""
    settings: dict[str, Any] = {}
    """Without a ``program``: the settings that the coordinator needs."""
    reset_state: bool = False
    """After a drain: no state is kept."""


class RunningDeployment(Document, frozen=True, kw_only=True):
    """What a container that registers needs to run the job."""

    job: str
    deployment: int
    program: Program
    formats: dict[str, Format] = {}
    """See :class:`StartRequest`."""


class DeployRequest(ChangeRequest, frozen=True, kw_only=True):
    """Replace the running version of a job by another one, without a drain."""

    start: StartRequest
    drop_state: tuple[str, ...] = ()
    """The operators whose state may be deleted."""


class RollbackRequest(ChangeRequest, frozen=True, kw_only=True):
    """Replace the running version of a job by the previous one."""

    drop_state: tuple[str, ...] = ()


class DeployResult(ChangeResult, frozen=True, kw_only=True):
    """What a deploy or a rollback changes."""

    deployment: int
    """The deployment that follows."""
    version_of: int
    """The deployment whose version it has; if that is its own number, the version is new."""
    notes: tuple[str, ...] = ()
    """What changes for users of the job's outputs or state."""
