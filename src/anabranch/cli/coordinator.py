"""``anabranch coordinator``: serves the jobs of a store; of several on one store, one leads."""

from __future__ import annotations

import ipaddress
import signal
import socket
import threading
from pathlib import Path
from typing import Annotated

import typer

from anabranch import config as configuration
from anabranch import references
from anabranch.cli import progress
from anabranch.clocks import boottime
from anabranch.coordinator import fencing, http
from anabranch.coordinator.election import Election
from anabranch.coordinator.leading import Leading
from anabranch.coordinator.service import Coordinator
from anabranch.coordinator.store import Store
from anabranch.errors import UsageError
from anabranch.event_time import durations


def coordinator(
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0 is any free one.")] = 8480,
    url: Annotated[str | None, typer.Option(help="How others reach it, if not by host and port.")] = None,
    config: Annotated[Path | None, typer.Option(help="The configuration file.")] = None,
) -> None:
    """Serve the jobs of a store, until Ctrl-C or SIGTERM: jobs go on without it."""
    settings = configuration.load(config).coordinator
    token = None if settings.token is None else references.resolved("coordinator.token", settings.token)
    if not token and not _is_loopback(host):
        raise UsageError(
            f"{host} can be reached from elsewhere, and [coordinator] token isn't set",
            "set a token, as ${env:ANABRANCH_TOKEN} or ${file:PATH}, here and for containers; or listen on 127.0.0.1",
        )
    lease, grace = (durations.parse(text) / 1000 for text in (settings.lease, settings.grace))
    listener = http.listen(host, port)
    reached = url or f"http://{host}:{listener.getsockname()[1]}"
    store = Store(settings.store)
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    served = Coordinator(store, lease=lease, grace=grace)
    election = Election(store, reached, boottime, lease, grace)
    try:
        with Leading(served, store, settings.store, election, reached, fencing.fence) as leading:
            server = http.Server(http.app(served, leading, token), listener)
            progress.say(f"coordinator at {reached}, store {store.url}; Ctrl-C ends it, and jobs go on")
            ended.wait()
            server.close()
    finally:
        store.close()


def _is_loopback(host: str) -> bool:
    try:
        found = {ipaddress.ip_address(each[4][0]) for each in socket.getaddrinfo(host, None)}
    except (OSError, ValueError) as error:
        raise UsageError(f"{host} is no address to listen on: {error}", "give one of this machine's") from error
    return all(each.is_loopback for each in found)
