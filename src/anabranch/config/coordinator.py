"""The section ``[coordinator]``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from anabranch.config.addresses import check_link, check_urls
from anabranch.config.durations import Duration
from anabranch.config.section import Section

__all__ = ["CoordinatorSettings"]


class CoordinatorSettings(Section):
    """Where the coordinator stores its data, where it listens, and when it considers a container lost."""

    store: str = "sqlite:///./.anabranch/coordinator.db"
    """A database URL. A relative SQLite path is resolved from the configuration's folder."""

    url: Annotated[str, AfterValidator(check_urls)] | None = None
    """The URL at which verbs and containers reach the coordinator; for several coordinators, their URLs, separated by
    commas."""

    token: str | None = None
    """The token with which a request may do everything, or a reference to this secret. If it isn't set, the coordinator
    creates a token in ``token_file``.
    """

    read_token: str | None = None
    """The token that is enough for requests that only read, or a reference to this secret."""

    token_file: Path | None = None
    """Where a coordinator stores the token that it creates, readable only by its own user. Default: for a store in
    SQLite, the store's path with ``.token`` appended, otherwise ``.anabranch/coordinator.token``.
    """

    hosts: list[str] = []
    """The host names that the coordinator accepts in requests, in addition to its own address, the names of the
    loopback interface, and those in ``url``.
    """

    links: dict[str, Annotated[str, AfterValidator(check_link)]] = {}
    """The dashboard's links for each container, such as to its log: web addresses by name, in which ``{job}``,
    ``{container}``, ``{seat}``, ``{host}``, ``{pid}`` and ``{rack}`` are filled in.
    """

    certificate: Path | None = None
    """The coordinator's certificate, as a PEM file. With it, the coordinator speaks TLS."""

    key: Path | None = None
    """The certificate's key, as a PEM file without a password. Default: the key is in the certificate's file."""

    client_ca: Path | None = None
    """The authority that must have signed the certificates of clients, as a PEM file. Default: clients need no
    certificate.
    """

    ca: Path | None = None
    """For clients: the authority that must have signed the coordinator's certificate, as a PEM file. Default: any
    authority that this machine trusts.
    """

    client_certificate: Path | None = None
    """The certificate that clients present, as a PEM file."""

    client_key: Path | None = None
    """The key of the clients' certificate, as a PEM file."""

    lease: Duration = "10 seconds"
    """How long after its last heartbeat a container's lease ends."""

    grace: Duration = "2 seconds"
    """How long after the end of a lease the coordinator gives the seat to another container."""

    period: Duration = "2 seconds"
    """The longest time between two heartbeats."""

    retain_events: Annotated[int, Field(ge=1000)] = 100_000
    """How many of each job's newest events the store keeps."""

    retain_versions: Annotated[int, Field(ge=2)] = 20
    """For how many of a job's latest deployments the store keeps the code."""

    launcher: Literal["external", "local"] = "external"
    """Who starts containers: an external service, or the leading coordinator, on its own machine."""

    logs: Path | None = None
    """The folder for the output of containers that the coordinator starts. Default: ``containers``, next to a store in
    SQLite, otherwise in ``.anabranch``."""
