"""The section ``[coordinator]``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator

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
    """What a request must carry; may be a reference."""

    lease: Duration = "10 seconds"
    """How long after its last heartbeat a container's lease ends."""

    grace: Duration = "2 seconds"
    """How much longer the coordinator waits before it gives the seat to another container."""

    period: Duration = "2 seconds"
    """The longest time between two heartbeats."""

    launcher: Literal["external", "local"] = "external"
    """Who starts containers: somebody else, or the coordinator that leads, on its own machine."""

    logs: Path | None = None
    """The folder for the output of containers that the coordinator starts (default: ``containers``, beside a store in
    SQLite, else in ``.anabranch``)."""
