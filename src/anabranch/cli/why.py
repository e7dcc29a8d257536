"""``anabranch why``: what holds a job back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from anabranch import config as configuration
from anabranch.cli import connect


def why(
    job: Annotated[str, typer.Argument(help="The job's name.")],
    config: Annotated[Path | None, typer.Option(help="The configuration file.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say what holds a job back, the worst first, and what to do."""
    found = connect.read(configuration.load(config).coordinator, job, lambda asked: asked.findings(job))
    if json:
        typer.echo(msgspec.json.encode([each.to_builtins() for each in found]).decode())
        return
    if not found:
        typer.echo(f"nothing that is known holds job {job} back")
    for each in found:
        typer.echo(f"{each.severity}: {each.summary}" + (f": {each.why}" if each.why else ""))
        if each.cure:
            typer.echo(f"  {each.cure}")
