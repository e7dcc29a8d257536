"""The section ``[coordinator]``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from anabranch.config.addresses import check_urls
from anabranch.config.durations import Duration
from anabranch.config.section import Section

__all__ = ["CoordinatorSettings"]


class CoordinatorSettings(Section):
    """Where the coordinator keeps what it knows, where it listens, and when it takes a container for lost."""

    store: str = "sqlite:///./.anabranch/coordinator.db"
    """A database URL. A relative SQLite path starts in the configuration's folder."""

    url: Annotated[str, AfterValidator(check_urls)] | None = None
    """Where the coordinator listens, for verbs and containers; several URLs are separated by commas."""

    token: str | None = None
    """What a request must carry; may be a reference. Without it the coordinator makes a token, in ``token_file``."""

    read_token: str | None = None
    """What a request may carry in its place if it only looks; may be a reference."""

    token_file: Path | None = None
    """Where a coordinator keeps the token that it makes, for its own user (default: beside a store in SQLite, with
    ``.token`` after its name, else ``.anabranch/coordinator.token``)."""

    hosts: list[str] = []
    """What the coordinator is called in requests, besides what it listens at, loopback's names and those in ``url``."""

    certificate: Path | None = None
    """What the coordinator shows, as a PEM file: it then speaks TLS."""

    key: Path | None = None
    """The certificate's key, as a PEM file without a password (default: in the certificate's file)."""

    client_ca: Path | None = None
    """Who must have signed the certificates that those show who ask it, as a PEM file (default: they show none)."""

    ca: Path | None = None
    """For those who ask: who must have signed the coordinator's certificate, as a PEM file (default: anybody whom this
    machine trusts)."""

    client_certificate: Path | None = None
    """What those show who ask, as a PEM file."""

    client_key: Path | None = None
    """Its key."""

    lease: Duration = "10 seconds"
    """How long after its last heartbeat a container's lease ends."""

    grace: Duration = "2 seconds"
    """How much longer the coordinator waits before it gives the seat to another container."""

    period: Duration = "2 seconds"
    """The longest time between two heartbeats."""

    retain_events: Annotated[int, Field(ge=1000)] = 100_000
    """How many events of each job the store keeps: the newest."""

    retain_versions: Annotated[int, Field(ge=2)] = 20
    """Of how many of a job's last deployments the store keeps the code."""

    launcher: Literal["external", "local"] = "external"
    """Who starts containers: somebody else, or the coordinator that leads, on its own machine."""

    logs: Path | None = None
    """The folder for the output of containers that the coordinator starts (default: ``containers``, beside a store in
    SQLite, else in ``.anabranch``)."""
