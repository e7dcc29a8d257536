"""Clients are kept for the next batch, and those of ended lanes are discarded."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from anabranch.systems.kafka.kept_clients import UNUSED, KeptClients


class Clients:
    """Names instead of clients, and a clock that is set."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.discarded: list[str] = []
        self.kept: KeptClients[str, str] = KeptClients(self.discarded.append, lambda: self.now)


def test_a_client_is_handed_out_once() -> None:
    its = Clients()
    its.kept.put("slot", "a")
    its.now += UNUSED
    assert its.kept.take("slot") == "a"
    assert its.kept.take("slot") is None
    assert its.discarded == []


def test_a_client_in_place_of_another_ends_that_one() -> None:
    its = Clients()
    its.kept.put("slot", "a")
    its.kept.put("slot", "b")
    assert its.discarded == ["a"]
    assert its.kept.take("slot") == "b"


@pytest.mark.parametrize(
    "call",
    [
        lambda kept: kept.take("new"),
        lambda kept: kept.put("new", "c"),
        lambda kept: kept.shared("new", lambda: "c"),
    ],
)
def test_each_call_discards_what_was_not_used_for_long(call: Callable[[KeptClients[str, str]], object]) -> None:
    its = Clients()
    its.kept.put("ended", "a")
    its.now += UNUSED / 2
    its.kept.put("runs", "b")
    its.now += UNUSED / 2 + 1
    call(its.kept)
    assert its.discarded == ["a"]
    assert its.kept.take("ended") is None
    assert its.kept.take("runs") == "b"


def test_a_shared_client_stays_as_long_as_it_is_used() -> None:
    its = Clients()
    for number in range(5):
        assert its.kept.shared("group", lambda number=number: f"made {number}") == "made 0"  # type: ignore[misc]
        its.now += UNUSED - 1
    its.now += 2
    assert its.kept.shared("group", lambda: "made anew") == "made anew"
    assert its.discarded == ["made 0"]


def test_of_two_that_are_made_at_once_one_is_shared() -> None:
    its = Clients()

    def make() -> str:
        return its.kept.shared("group", lambda: "first") and "second"

    assert its.kept.shared("group", make) == "first"
    assert its.discarded == ["second"]


def test_all_are_discarded_and_without_a_lock() -> None:
    ended: list[str] = []

    def discard(client: str) -> None:
        other = threading.Thread(target=lambda: kept.take("other"), daemon=True)
        other.start()
        other.join(10)
        assert not other.is_alive()
        ended.append(client)

    kept: KeptClients[str, str] = KeptClients(discard)
    kept.put("a", "1")
    kept.put("b", "2")
    kept.clear()
    assert ended == ["1", "2"]
