"""``anabranch rollback``: the version before the present one follows it, on the present state."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Annotated

import typer

from anabranch import config as configuration
from anabranch.cli import connect, deploy, haste
from anabranch.protocol.deployment import RollbackRequest


def rollback(
    job: Annotated[str, typer.Argument(help="The job's name.")],
    coordinator: Annotated[str | None, typer.Option(help="Its URL; default: [coordinator] url.")] = None,
    drop_state: Annotated[
        list[str] | None, typer.Option(help="An operator that the former version doesn't have, and whose state may go.")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="The configuration file.")] = None,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for it.")] = 300.0,
    now: haste.Now = False,
    detach: Annotated[bool, typer.Option("--detach", help="Don't wait.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Let the version before the present one follow it, and wait for it. Ctrl-C ends only the waiting."""
    with connect.at(configuration.load(config), coordinator) as client:
        wish = RollbackRequest(drop_state=tuple(drop_state or ()), request=uuid.uuid4().hex, now=now)
        told = client.rollback(job, wish)
        haste.said(now)
        deploy.follow(client, job, told, None if detach else timeout, json)
