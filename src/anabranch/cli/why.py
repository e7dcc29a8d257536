"""``anabranch why``: says what holds a job back."""

from __future__ import annotations

import msgspec
import typer

from anabranch import config as configuration
from anabranch.cli import connect, options


def why(
    job: options.Job,
    config: options.Config = None,
    json: options.Json = False,
) -> None:
    """Say what holds a job back, the most severe finding first, and what to do."""
    found = connect.read(configuration.load(config).coordinator, job, lambda asked: asked.findings(job))
    if json:
        typer.echo(msgspec.json.encode([each.to_builtins() for each in found]).decode())
        return
    if not found:
        typer.echo(f"nothing known holds job {job} back")
    for each in found:
        typer.echo(f"{each.severity}: {each.summary}" + (f": {each.why}" if each.why else ""))
        if each.cure:
            typer.echo(f"  {each.cure}")
