"""``anabranch coordinator``: serves the jobs of a store."""

from __future__ import annotations

import ipaddress
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from queue import SimpleQueue
from typing import Annotated, Literal
from urllib.parse import urlsplit

import typer
from prometheus_client.core import Metric

from anabranch import config as configuration
from anabranch import metrics
from anabranch.cli import options, progress
from anabranch.clocks import boottime
from anabranch.config import CoordinatorSettings, secrets
from anabranch.config.addresses import LAST_PORT, check_urls
from anabranch.coordinator.api import audit, listening, tls, token_file
from anabranch.coordinator.api import server as server_api
from anabranch.coordinator.api.auth import Tokens
from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.jobs import fencing
from anabranch.coordinator.launcher.launcher import Launcher
from anabranch.coordinator.launcher.processes import Processes
from anabranch.coordinator.leadership.election import Election
from anabranch.coordinator.leadership.leadership import Leadership
from anabranch.coordinator.lineage_source import ServedJobs
from anabranch.coordinator.store import Store
from anabranch.coordinator.store.sweep_schedule import Retain
from anabranch.coordinator.streams.input_monitor import InputMonitor
from anabranch.errors import ConfigError, UsageError
from anabranch.event_time import durations
from anabranch.telemetry import exporting, lineage

PORT = 8480


def coordinator(
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=LAST_PORT,
            help=f"The port, or 0 for any free one. Default: the port of [coordinator] url if it names this host, "
            f"otherwise {PORT}.",
        ),
    ] = None,
    url: Annotated[
        str | None, typer.Option(help="The URL at which others reach this coordinator. Default: its host and port.")
    ] = None,
    launcher: Annotated[
        Literal["external", "local"] | None,
        typer.Option(
            help="Who starts containers: you (external), or this coordinator on this machine (local). "
            "Default: [coordinator] launcher."
        ),
    ] = None,
    config: options.Config = None,
) -> None:
    """Serve the jobs of a store, until Ctrl-C or SIGTERM. Unless settings or outputs forbid it, jobs continue
    without the coordinator."""
    settings = configuration.load(config).coordinator
    tokens = _tokens(settings)
    _check_reach(settings, host, url)
    lease, grace = (durations.parse(text) / 1000 for text in (settings.lease, settings.grace))
    listener = listening.listen(host, default_port(host, settings.url) if port is None else port)
    trust = None
    if settings.certificate is not None:
        trust = tls.of_server(settings.certificate, settings.key, settings.client_ca)
    reached = url or f"{'http' if trust is None else 'https'}://{host}:{listener.getsockname()[1]}"
    store = Store(settings.store)
    token = tokens.operate or token_file.made(token_file.of(settings))
    signals = SimpleQueue[int]()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda received, _: signals.put(received))
    served = Coordinator(store, lease=lease, grace=grace, retain=Retain.of(settings), links=settings.links)
    election = Election(store, reached, boottime, lease, grace)
    local = (launcher or settings.launcher) == "local"
    launches = launcher_of(settings, settings.url or reached, config) if local else None
    requests = token_file.sibling(token_file.of(settings), ".audit")
    names = [*settings.hosts, host, reached, *(settings.url or "").split(",")]
    with (
        closing(store),
        Leadership(served, store, settings.store, election, reached, fencing.fence, launches) as leading,
        InputMonitor(served),
        closing(audit.Audit(requests, lambda event: store.note([event]))) as trail,
        lineage.reported(ServedJobs(served, lambda: leading.leads), progress.say),
        exporting.metrics("anabranch-coordinator", lambda: _metrics(served, leading), progress.say),
    ):
        routes = server_api.app(served, leading, token, read_token=tokens.read, hosts=names, trail=trail)
        server = listening.Server(routes, listener, trust)
        listening.keep_prompt()
        _greet(settings, store, reached, local)
        first = signals.get()
        server.close()
    if first == signal.SIGINT:
        raise KeyboardInterrupt


def _metrics(served: Coordinator, leading: Leadership) -> list[Metric]:
    return metrics.families(served.jobs(), served.membership.invalid_heartbeats, leading.leads)


def _greet(settings: CoordinatorSettings, store: Store, url: str, local: bool) -> None:
    shown = secrets.without_passwords(url)
    progress.say(f"coordinator at {shown}, store {store.url}; Ctrl-C ends the coordinator, but not the jobs")
    if settings.token is None:
        progress.say(f"requests need the token in {settings.token_file}, which verbs of this user find by themselves")
    progress.shared(settings.store)
    if local:
        progress.say(f"it starts containers here; their logs are in {settings.logs}")


def _check_reach(settings: CoordinatorSettings, host: str, url: str | None) -> None:
    """Raises UsageError if no token is set and ``host`` isn't a loopback address, or if the coordinator's URL is
    invalid."""
    if settings.token is None and not _is_loopback(host):
        raise UsageError(
            f"{host} can be reached from elsewhere, and [coordinator] token isn't set",
            "set a token, as ${env:ANABRANCH_TOKEN} or ${file:PATH}, here and for containers; or listen on 127.0.0.1",
        )
    try:
        check_urls(url or settings.url or "http://127.0.0.1")
    except ValueError as error:
        raise UsageError(
            f"--url: {error}", "give the URL by which verbs and containers reach this coordinator"
        ) from None


def default_port(host: str, url: str | None) -> int:
    """The port of the first URL in ``url`` that names ``host``. (``localhost`` names 127.0.0.1, too.) If there is no
    such URL, or if this URL has no port, the result is ``PORT``. ``url`` lists the URLs at which verbs look for
    coordinators, separated by commas."""
    for each in (url or "").split(","):
        looked_for = urlsplit(each.strip())
        if looked_for.hostname == host or (looked_for.hostname == "localhost" and host == "127.0.0.1"):
            return looked_for.port or PORT
    return PORT


def launcher_of(settings: CoordinatorSettings, url: str, config: Path | None) -> Launcher:
    """A launcher whose containers use the coordinator at ``url``, and get this process's configuration and
    :func:`environment <configuration.environment_of_containers>`.
    """
    assert settings.logs is not None
    named = [] if config is None else ["--config", str(config.resolve())]

    def command(job: str) -> Sequence[str]:
        # -P: modules in the working folder are not imported
        return [sys.executable, "-P", "-m", "anabranch", "container", job, "--coordinator", url, *named]

    environment = configuration.environment_of_containers()
    if settings.token is None:  # even if ``url`` isn't a loopback address
        environment[f"{configuration.PREFIX}COORDINATOR__TOKEN"] = f"${{file:{settings.token_file}}}"
    return Launcher(Processes(settings.logs, command, environment))


def _tokens(settings: CoordinatorSettings) -> Tokens:
    """The configured tokens. Raises ConfigError if they are equal, or if one is empty or can't be resolved."""
    operate, read = _token("token", settings.token), _token("read_token", settings.read_token)
    if operate is not None and operate == read:
        raise ConfigError("the settings coordinator.token and coordinator.read_token are equal", "set another one")
    return Tokens(operate, read)


def _token(setting: str, text: str | None) -> str | None:
    token = None if text is None else secrets.resolved(f"coordinator.{setting}", text)
    if token is not None and not token.strip():
        raise ConfigError(f"the setting coordinator.{setting} is empty", "set it to a secret, or remove the setting")
    return token


def _is_loopback(host: str) -> bool:
    try:
        found = {ipaddress.ip_address(each[4][0]) for each in socket.getaddrinfo(host, None)}
    except (OSError, ValueError) as error:
        raise UsageError(f"{host} isn't an address to listen on: {error}", "give an address of this machine") from error
    return all(each.is_loopback for each in found)
