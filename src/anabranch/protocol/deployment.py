"""Deployments of a job: requests to start, deploy and roll back, and what containers need to run a deployment."""

from __future__ import annotations

from typing import Any

from anabranch.formats import Format
from anabranch.model.deployment_state import DeploymentState
from anabranch.model.document import Document
from anabranch.model.graph import Graph
from anabranch.model.job_model import JobModel
from anabranch.model.lane import Lane
from anabranch.protocol.commands import ChangeRequest, ChangeResult

__all__ = [
    "DeployRequest",
    "DeployResult",
    "Program",
    "RollbackRequest",
    "RunningDeployment",
    "StartBasis",
    "StartRequest",
]


class Program(Document, frozen=True, kw_only=True):
    """The code, the settings and the schemas that a container outside the coordinator's process needs to run a
    deployment, and how many Spark tasks the container must be able to run at once.
    """

    artifact: str
    """The SHA-256 of the job's code; empty if the code isn't stored."""
    file: str
    """The job file within the code."""
    settings: dict[str, Any]
    """The settings of the user who started the job, as :func:`anabranch.config.dumped` returns them."""
    schemas: dict[str, str]
    """The schema of each operator's result in Spark's JSON format, by the id of the operator's node."""
    cores: int = 0
    """How many Spark tasks a container must be able to run at once; 0 for any number."""
    in_process: bool = False
    """Whether only the process that serves the job runs the deployment. If so, other processes use this
    program only to close the deployment's lanes before another version follows.
    """
    lacks: str = ""
    """Why the code or the settings couldn't be stored, if ``in_process`` is true; empty if they are stored."""


class StartBasis(Document, frozen=True, kw_only=True):
    """The last deployment of a job when the job's start was planned."""

    deployment: int = 0
    """The deployment's number; 0 if the job was new."""
    over: DeploymentState | None = None
    """``drained`` or ``reset`` if the deployment was over, so that the start makes a new deployment; None otherwise."""


class StartRequest(Document, frozen=True, kw_only=True):
    """A planned deployment that should be started."""

    graph: Graph
    model: JobModel
    """The job model. Its run id is 0, because the coordinator assigns the deployment's number."""
    lanes: tuple[Lane, ...]
    """The lanes, all of them new."""
    fingerprint: dict[str, str]
    """The properties (graph, factor, …) that a later start must share to continue the job, each as a value or a
    hash.
    """
    formats: dict[str, Format] = {}
    """The formats of streams, by stream. A stream without an entry contains JSON. The formats of a deployment never
    change.
    """
    promises: dict[str, str] = {}
    """The promise of each output, by operator."""
    until_caught_up: bool = False
    """Whether lanes end when they reach the end offsets that their inputs had when the lanes were started."""
    program: Program | None = None
    """What containers in other processes need; None if the process that starts the job is the only container."""
    own_program: Program | None = None
    """What another process would need to close the deployment's lanes, if there is no ``program``."""
    settings: dict[str, Any] = {}
    """The settings that the coordinator needs if there is no ``program``."""
    reset_state: bool = False
    """Whether a job that was drained starts without the state that the drain left."""
    expect: StartBasis | None = None
    """The job's last deployment for which the start was planned. If the job has another last deployment by now, or this
    deployment was drained or reset meanwhile, the request is refused. None if this isn't compared.
    """


class RunningDeployment(Document, frozen=True, kw_only=True):
    """What a container needs to run the job."""

    job: str
    deployment: int
    program: Program
    formats: dict[str, Format] = {}
    """The formats of streams, as in :attr:`StartRequest.formats`."""


class DeployRequest(ChangeRequest, frozen=True, kw_only=True):
    """Replace the running version of a job with another version, without a drain."""

    start: StartRequest
    drop_state: tuple[str, ...] = ()
    """The operators whose state may be dropped."""


class RollbackRequest(ChangeRequest, frozen=True, kw_only=True):
    """Replace the running version of a job with the previous version."""

    drop_state: tuple[str, ...] = ()


class DeployResult(ChangeResult, frozen=True, kw_only=True):
    """The effects of a deploy or a rollback."""

    deployment: int
    """The number of the new deployment."""
    version_of: int
    """The first deployment of the same version; the new deployment's own number if the version is new."""
    notes: tuple[str, ...] = ()
    """What changes in the job's inputs, outputs and state."""
