"""A container that waits for a Spark cluster says so to the coordinator."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from anabranch.cli.slots_wait import SlotsWait
from anabranch.errors import NotLeadingError
from anabranch.protocol.container import Registration

ME = Registration(job="delays", execution="e1", host="h", pid=1, seat="0", deployment=2)


class Client:
    """Takes registrations. The first one meets a coordinator that doesn't lead."""

    def __init__(self) -> None:
        self.heard: list[Registration] = []
        self.twice = threading.Event()

    def register(self, registration: Registration) -> None:
        self.heard.append(registration)
        if len(self.heard) == 1:
            raise NotLeadingError("another coordinator leads")
        self.twice.set()


def test_it_is_told_until_the_cluster_has_given_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anabranch.cli.slots_wait.EVERY", 0.01)
    client: Any = Client()
    with SlotsWait(client, ME, on_cluster=True, after=0.01) as slots:
        assert client.twice.wait(10)
        slots.end()
    told = client.heard[0]
    assert (told.waits_for_slots, told.warm, told.seat) == (True, False, None)
    assert (told.execution, told.deployment) == ("e1", 2)


@pytest.mark.parametrize(("on_cluster", "after"), [(False, 0.0), (True, 60.0)])
def test_nothing_is_told_on_this_machine_or_before_the_cluster_had_time(on_cluster: bool, after: float) -> None:
    client: Any = Client()
    with SlotsWait(client, ME, on_cluster, after):
        assert not client.twice.wait(0.1)
    assert client.heard == []
