"""``anabranch dashboard``: opens the page of the coordinator that serves a job in the browser."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated
from urllib.parse import quote, urlencode

import typer

from anabranch import config as configuration
from anabranch.cli import connect, progress
from anabranch.config import CoordinatorSettings, secrets
from anabranch.coordinator import endpoint
from anabranch.errors import ConflictError

_PATH = "/ui/"


def dashboard(
    job: Annotated[str | None, typer.Argument(help="The job's name; default: all jobs.")] = None,
    coordinator: Annotated[str | None, typer.Option(help="Its URL; default: [coordinator] url.")] = None,
    no_open: Annotated[bool, typer.Option("--print", help="Only print the address, without the token.")] = False,
    config: Annotated[Path | None, typer.Option(help="The configuration file.")] = None,
) -> None:
    """Open the coordinator's page in the browser, with the token that is configured."""
    settings = configuration.load(config).coordinator
    url = coordinator or _url(settings, job)
    if no_open:
        typer.echo(address(url, job))
        return
    token = None if settings.token is None else secrets.resolved("coordinator.token", settings.token)
    progress.say(f"opening {address(url, job)}")
    if not webbrowser.open(address(url, job, token)):
        progress.say(
            "no browser could be opened: open that address in one" + (", and enter the token" if token else "")
        )


def address(url: str, job: str | None = None, token: str | None = None) -> str:
    """The address of a page. The token is in the part that no browser sends and no server logs; the page takes it out
    of the address before it does anything else."""
    path = "/" if job is None else f"/jobs/{quote(job, safe='')}"
    fragment = path if token is None else f"/login?{urlencode({'token': token, 'next': path})}"
    return f"{url.rstrip('/')}{_PATH}#{fragment}"


def _url(settings: CoordinatorSettings, job: str | None) -> str:
    """The coordinator that is configured; else one that runs a job on this machine."""
    if job is not None:
        with connect.client(settings, job) as client:
            return client.url
    served = {} if settings.url is not None else endpoint.find(settings.store)
    found = settings.url.split(",")[0].strip() if settings.url is not None else next(iter(served.values()), None)
    if found is None:
        raise ConflictError(
            "nothing runs here that has a page",
            "start a job with anabranch run, or a coordinator, and name it with --coordinator URL",
        )
    return found
