"""``anabranch rollback``: returns a job to its previous version, which takes over state and positions."""

from __future__ import annotations

import uuid
from typing import Annotated

import typer

from anabranch import config as configuration
from anabranch.cli import connect, deploy, haste, options
from anabranch.cli.change_options import ChangeOptions, with_change_options
from anabranch.protocol.deployment import RollbackRequest


@with_change_options
def rollback(
    job: options.Job,
    coordinator: options.Url = None,
    drop_state: Annotated[
        list[str] | None,
        typer.Option(help="An operator that only the current version has, and whose state may be dropped."),
    ] = None,
    *,
    chosen: ChangeOptions,
) -> None:
    """Go back to a running job's previous version, and wait until that is done. Ctrl-C stops only the waiting."""
    with connect.at(configuration.load(chosen.config), coordinator) as client:
        wish = RollbackRequest(drop_state=tuple(drop_state or ()), request=uuid.uuid4().hex, now=chosen.now)
        told = client.rollback(job, wish)
        haste.said(chosen.now)
        deploy.follow(client, job, told, chosen.patience, chosen.json)
