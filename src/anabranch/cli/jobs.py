"""``anabranch jobs``: lists the jobs of a store."""

from __future__ import annotations

import msgspec
import typer
from rich.table import Table

from anabranch import config as configuration
from anabranch.cli import connect, options, tables


def jobs(config: options.Config = None, json: options.Json = False) -> None:
    """List the jobs of the store."""
    found = connect.jobs(configuration.load(config).coordinator)
    if json:
        typer.echo(msgspec.json.encode([status.to_builtins() for status in found]).decode())
        return
    table = Table()
    for column in ("job", "state", "deployment", "lanes", "served"):
        table.add_column(column)
    for status in found:
        served = "yes" if status.served else "no"
        table.add_row(status.job, status.state, str(status.deployment), str(len(status.lanes)), served)
    tables.wide().print(table)
