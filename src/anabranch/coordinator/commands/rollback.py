"""Returns a job to its previous version, which takes over the job's state and positions."""

from __future__ import annotations

from anabranch.coordinator.commands import deploy
from anabranch.coordinator.commands.context import Context
from anabranch.coordinator.commands.deploy import apply, check
from anabranch.coordinator.jobs import next_deployment
from anabranch.coordinator.jobs.next_deployment import CurrentDeployment, NextDeployment
from anabranch.coordinator.jobs.registry import JobRegistry
from anabranch.protocol.deployment import DeployResult, RollbackRequest

__all__ = ["apply", "check", "plan", "run"]


def run(context: Context, job: str, request: RollbackRequest) -> DeployResult:
    """Deploy the previous version.

    Raises:
        ConflictError: there was no previous version. Also raises the errors of
            :func:`anabranch.coordinator.commands.deploy.run`.
    """
    return deploy.change(context, job, request, lambda found: plan(context.registry, found, request))


def plan(registry: JobRegistry, found: CurrentDeployment, request: RollbackRequest) -> NextDeployment:
    """The next deployment, with the previous version. Raises ConflictError if there was no previous version.
    Also raises the errors of :func:`anabranch.coordinator.jobs.next_deployment.deployed`.
    """
    store, job = registry.store, found.stored.job
    former = next_deployment.former_version(store, job, found.stored.id)
    start, again = next_deployment.again(store, job, former), next_deployment.version_of(store, job, former)
    return next_deployment.deployed(found, start, again, request.drop_state, request.request)
