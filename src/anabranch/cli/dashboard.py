"""``anabranch dashboard``: opens the coordinator's pages in the browser."""

from __future__ import annotations

import webbrowser
from html import escape
from pathlib import Path
from typing import Annotated
from urllib.parse import quote, urlencode

import typer

from anabranch import config as configuration
from anabranch import own_files
from anabranch.cli import connect, options, progress
from anabranch.config import CoordinatorSettings
from anabranch.coordinator.api import token_file
from anabranch.errors import ConflictError

_PATH = "/ui/"


def dashboard(
    job: Annotated[str | None, typer.Argument(help="The job's name; default: all jobs.")] = None,
    coordinator: options.Url = None,
    no_open: Annotated[bool, typer.Option("--print", help="Only print the address, without the token.")] = False,
    config: options.Config = None,
) -> None:
    """Open the coordinator's pages in the browser, logged in with its token."""
    settings = configuration.load(config).coordinator
    url = coordinator.split(",")[0].strip() if coordinator else _url(settings, job)
    if no_open:
        typer.echo(address(url, job))
        return
    token = connect.token(url, settings)
    progress.say(f"opening {address(url, job)}")
    opened = address(url, job) if token is None else _redirect(token_file.of(settings), address(url, job, token))
    if not webbrowser.open(opened):
        progress.say(
            "no browser could be opened: open that address in one" + (", and enter the token" if token else "")
        )


def address(url: str, job: str | None = None, token: str | None = None) -> str:
    """The address of a page. A token is put into the address's fragment: browsers don't send it, servers don't log it,
    and the page removes it at once.
    """
    path = "/" if job is None else f"/jobs/{quote(job, safe='')}"
    fragment = path if token is None else f"/login?{urlencode({'token': token, 'next': path})}"
    return f"{url.rstrip('/')}{_PATH}#{fragment}"


def _redirect(token_path: Path, address: str) -> str:
    """Write a file that redirects to ``address`` and that only this user can read, and return its URL. (If the browser
    got ``address`` as an argument, all users of the machine could see the token.)
    """
    path = token_file.sibling(token_path, ".token.html")
    own_files.make_folder(path.parent)
    path.unlink(missing_ok=True)
    own_files.make_file(path)
    path.write_text(f'<!doctype html><meta http-equiv="refresh" content="0; url={escape(address)}">')
    return path.as_uri()


def _url(settings: CoordinatorSettings, job: str | None) -> str:
    """The URL of the coordinator that serves ``job``. If ``job`` is None, the result of :func:`connect.coordinator_url`
    or, if that is None, the URL of any process on this machine that serves a job of the store.

    Raises:
        NotFoundError: there is no such job.
        ConflictError: there is no such coordinator.
    """
    if job is not None:
        with connect.client(settings, job) as client:
            return client.url
    found = connect.coordinator_url(settings) or next(iter(connect.served_here(settings).values()), None)
    if found is None:
        raise ConflictError(
            "nothing that serves a dashboard is running here",
            "start a job with anabranch run, or a coordinator, and name it with --coordinator URL",
        )
    return found.split(",")[0].strip()
