"""Defines the arguments and options that several verbs share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["Config", "Detach", "Job", "Json", "Timeout", "Url"]

Job = Annotated[str, typer.Argument(help="The job's name.")]
Config = Annotated[Path | None, typer.Option(help="The configuration file.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Detach = Annotated[bool, typer.Option("--detach", help="Don't wait.")]
Timeout = Annotated[float, typer.Option(help="How many seconds to wait.")]
Url = Annotated[str | None, typer.Option(help="The coordinator's URL; default: [coordinator] url.")]
"""The URL of a coordinator."""
