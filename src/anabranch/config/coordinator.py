"""The section ``[coordinator]``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from anabranch.config.addresses import check_link, check_urls
from anabranch.config.durations import Duration, PositiveDuration
from anabranch.config.section import Section

__all__ = ["CoordinatorSettings"]


class CoordinatorSettings(Section):
    """The settings of coordinators and their clients, such as the store, URLs, tokens, certificates and leases."""

    store: str = "sqlite:///./.anabranch/coordinator.db"
    """A database URL. A relative SQLite path is relative to the folder of the configuration file."""

    url: Annotated[str, AfterValidator(check_urls)] | None = None
    """The URL at which verbs and containers reach the coordinator. If there are several coordinators, their URLs,
    separated by commas."""

    token: str | None = None
    """The token that permits all operations, or a reference to this secret. If it isn't set, the coordinator creates a
    token in ``token_file``.
    """

    read_token: str | None = None
    """The token that only permits reading the state of jobs, or a reference to this secret."""

    token_file: Path | None = None
    """The file in which a coordinator stores the token that it creates. Only the coordinator's user can read the file.
    Default: for a store in SQLite, the store's path with ``.token`` appended, otherwise
    ``.anabranch/coordinator.token``.
    """

    hosts: list[str] = []
    """The host names that the coordinator accepts in requests, in addition to its own address, the names of the
    loopback interface, and the host names in ``url``.
    """

    links: dict[str, Annotated[str, AfterValidator(check_link)]] = {}
    """The links that the dashboard shows for each container, such as a link to its log: web addresses by name. The
    dashboard fills in ``{job}``, ``{container}``, ``{seat}``, ``{host}``, ``{pid}`` and ``{rack}``.
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

    lease: PositiveDuration = "10 seconds"
    """The length of a container's lease, counted from the last heartbeat, and of the leading coordinator's lease,
    counted from the last renewal."""

    grace: Duration = "2 seconds"
    """The time from the end of a lease until the container loses its seat, or until another coordinator can lead."""

    period: PositiveDuration = "2 seconds"
    """The longest time between two heartbeats, at most half of ``lease``."""

    retain_events: Annotated[int, Field(ge=1000)] = 100_000
    """How many events the store keeps for each job. Older events are deleted."""

    retain_versions: Annotated[int, Field(ge=2)] = 20
    """For how many of each job's latest versions the store keeps the code. Code that only older versions use is
    deleted, unless the present version or the version before it uses the code.
    """

    launcher: Literal["external", "local"] = "external"
    """Who starts containers: an external service, or the leading coordinator (on its own machine)."""

    logs: Path | None = None
    """The folder for the output of containers that the coordinator starts. Default: the folder ``containers``, next to
    the store if the store is in SQLite, otherwise in ``.anabranch``."""
