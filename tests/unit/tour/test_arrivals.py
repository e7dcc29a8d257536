"""Flights arrive at the rate that is asked for, each once, and into partitions that come later."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from anabranch.errors import AnabranchError
from anabranch.systems.embedded import EmbeddedSystem
from anabranch.tour.arrivals import Arrivals


def count(system: EmbeddedSystem) -> int:
    return sum(system.ends("flights").values())


def test_flights_arrive_until_they_are_stopped(tmp_path: Path) -> None:
    system = EmbeddedSystem(tmp_path)
    system.create("flights", 2)
    with Arrivals(system, "flights", 1000) as arrivals:
        arrivals.start()
        while arrivals.count < 500:
            time.sleep(0.01)
        system.expand("flights", 4)
        before = arrivals.count
        while arrivals.count < before + 500:
            time.sleep(0.01)
        arrivals.stop()
    assert count(system) == arrivals.count == arrivals.written.num_rows
    assert all(system.ends("flights").values())
    assert arrivals.count < 100_000


def test_a_stream_that_is_not_there(tmp_path: Path) -> None:
    with Arrivals(EmbeddedSystem(tmp_path), "flights", 1000) as arrivals:
        arrivals.start()
        with pytest.raises(AnabranchError, match=r"^flights can't be written into the stream flights: "):
            _until_it_fails(arrivals)


def _until_it_fails(arrivals: Arrivals) -> None:
    while True:
        arrivals.check()
        time.sleep(0.01)
