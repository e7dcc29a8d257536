"""``anabranch jars``: fetches jars into the cache, without Maven or a clone of anabranch's repository."""

from __future__ import annotations

from typing import Annotated

import typer

from anabranch.cli import progress
from anabranch.errors import UsageError
from anabranch.jars import fetching, repository
from anabranch.jars.pinned import SETS, jar_set

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Fetch the jars that a job on Kafka or with Avro needs.")


@app.callback()
def _jars() -> None:
    """Does nothing. Without this callback, Typer would treat an application that has a single verb as that verb."""


@app.command()
def fetch(
    sets: Annotated[
        list[str] | None,
        typer.Argument(help="connector (for Kafka), broker (for demo --kafka and tests), avro. Default: connector."),
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(
            "--repository",
            help=f"A Maven repository's URL. Default: {repository.VARIABLE}, the mirror in ~/.m2/settings.xml, or "
            "Maven Central.",
        ),
    ] = None,
) -> None:
    """Fetch the jars that aren't in the cache yet, and print the folders of all of them."""
    wanted = sets or ["connector"]
    if unknown := sorted(set(wanted) - set(SETS)):
        raise UsageError(f"there are no jars called {', '.join(unknown)}", f"choose from: {', '.join(SETS)}")
    source = repository.chosen(url)
    for name in wanted:
        typer.echo(str(fetching.fetch(jar_set(name), source, progress.say)))
