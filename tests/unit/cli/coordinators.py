"""Two coordinators on one store, each with its server: one leads, and one stands by."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anabranch.config import CoordinatorSettings
from anabranch.coordinator.api import listening
from anabranch.coordinator.api import server as server_api
from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.store import Store
from anabranch.errors import NotLeadingError
from tests.unit.coordinator.helpers import Clock


class StandsBy:
    """The leader of a coordinator that stands by."""

    leads = False

    def check(self) -> None:
        raise NotLeadingError("this coordinator stands by", "ask another")

    def start(self, *_: Any) -> int:
        raise NotLeadingError("this coordinator stands by", "ask another")

    resume = start


@dataclass(frozen=True)
class Pair:
    leader: Coordinator
    standby: Coordinator
    clock: Clock
    url: str
    """Both URLs; the first is that of the coordinator that stands by."""
    settings: CoordinatorSettings


@contextmanager
def pair(folder: Path) -> Iterator[Pair]:
    store = f"sqlite:///{folder}/c.db"
    clock = Clock()
    leader, standby = (Coordinator(Store(store), clock, grace=2.0) for _ in range(2))
    servers = [
        listening.Server(server_api.app(standby, StandsBy()), listening.listen()),
        listening.Server(server_api.app(leader), listening.listen()),
    ]
    url = ",".join(server.url for server in servers)
    yield Pair(leader, standby, clock, url, CoordinatorSettings(store=store, url=url, token_file=None))
    for server in servers:
        server.close()
