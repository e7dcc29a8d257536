"""``anabranch rollback``: returns to the version before the present one, with the present state."""

from __future__ import annotations

import uuid
from typing import Annotated

import typer

from anabranch import config as configuration
from anabranch.cli import connect, deploy, haste, options
from anabranch.protocol.deployment import RollbackRequest


def rollback(
    job: options.Job,
    coordinator: options.Url = None,
    drop_state: Annotated[
        list[str] | None, typer.Option(help="An operator of the present version only, whose state may be dropped.")
    ] = None,
    config: options.Config = None,
    timeout: options.Timeout = 300.0,
    now: haste.Now = False,
    detach: options.Detach = False,
    json: options.Json = False,
) -> None:
    """Go back to the version before the present one, and wait for it. Ctrl-C ends only the waiting."""
    with connect.at(configuration.load(config), coordinator) as client:
        wish = RollbackRequest(drop_state=tuple(drop_state or ()), request=uuid.uuid4().hex, now=now)
        told = client.rollback(job, wish)
        haste.said(now)
        deploy.follow(client, job, told, None if detach else timeout, json)
