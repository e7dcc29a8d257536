"""A record that ends its Python worker becomes a dead letter, and so does one that takes too long; the lane goes on."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Iterable
from typing import Any

import pytest

from anabranch import Job, MapState, Processor, ValueState
from anabranch.api.timers import Timers
from anabranch.spark.functions import isolation
from tests.integration.dead_letters import counted, letters
from tests.integration.harness import Deployed, Site

COUNT = 5000
KILLERS = (1734, 1735, 4321)


def deadly(message: dict[str, Any]) -> dict[str, Any]:
    match message["n"]:
        case 1734:
            os._exit(0)
        case 1735:
            ctypes.string_at(0)
        case 4321:
            raise KeyboardInterrupt
    return message


async def deadly_later(message: dict[str, Any]) -> dict[str, Any]:
    return deadly(message)


def put(site: Site, count: int = COUNT) -> None:
    site.log.create("in", 1)
    site.put("in", 0, [{"n": n} for n in range(count)], [b"k%d" % (n % 50) for n in range(count)])


def goes_on(run: Deployed) -> None:
    """The session here tries no Spark task twice: the lane fails, and it is its next attempt that isolates."""
    (failed,) = run.run().values()
    assert failed.phase == "failed"
    assert failed.error is not None
    run.ran()


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lanes of other tests have the same names."""
    monkeypatch.setattr(isolation, "isolated_lanes", set())


def told(site: Site) -> dict[int, str]:
    """By the number of a record that was put aside, why."""
    found = {int(ours["offset"]): ours["error"] for _, _, ours in letters(site)}
    assert len(found) == len(letters(site))
    return found


@pytest.mark.parametrize(("function", "factor"), [pytest.param(deadly, 1, marks=pytest.mark.long), (deadly_later, 4)])
def test_records_that_kill_their_worker_are_put_aside(site: Site, function: Any, factor: int) -> None:
    put(site)
    job = Job("j")
    job.read("in", key="k string", schema="n int").map(function, name="f").write("out")
    run = site.deployed(job, on_error="dead-letter", factor=factor)
    goes_on(run)
    assert sorted(v["n"] for v in site.values("out")) == [n for n in range(COUNT) if n not in KILLERS]
    why = told(site)
    assert why.keys() == set(KILLERS)
    assert why[1734] == "the worker died on it 3 times: it ended with exit code 0"
    assert why[1735] == "the worker died on it 3 times: killed by SIGSEGV"
    assert why[4321].startswith("KeyboardInterrupt at test_killed_workers.py:")
    assert counted(run) == (3, 0)


class Deadly(Processor):
    """Counts a key's messages; on some of them, after it has changed its state, it dies."""

    seen = ValueState("bigint")
    last = MapState("string", "bigint")

    def on_message(self, message: dict[str, Any], timers: Timers) -> Iterable[dict[str, Any]]:
        count = self.seen.get(0) + 1
        self.seen.set(count)
        self.last.set("n", message["n"])
        deadly(message)
        yield {"n": message["n"], "count": count, "last": self.last.get("n")}


@pytest.mark.long
def test_a_process_goes_on_without_what_a_killer_has_changed(site: Site) -> None:
    put(site)
    job = Job("j")
    rows = job.read("in", key="k string", schema="n int")
    rows.process(Deadly(), schema="k string, n bigint, count bigint, last bigint", name="p").write("out")
    run = site.deployed(job, on_error="dead-letter")
    goes_on(run)
    assert told(site).keys() == set(KILLERS)
    assert counted(run) == (3, 0)
    wanted = set()
    counts: dict[int, int] = {}
    for n in range(COUNT):
        if n not in KILLERS:
            counts[n % 50] = counts.get(n % 50, 0) + 1
            wanted.add((n, counts[n % 50], n))
    assert {(v["n"], v["count"], v["last"]) for v in site.values("out")} == wanted


def stuck(message: dict[str, Any]) -> dict[str, Any]:
    if message["n"] == 33:
        time.sleep(3600)
    return message


@pytest.mark.long
def test_a_record_that_takes_too_long_is_put_aside(site: Site) -> None:
    put(site, 50)
    job = Job("j")
    job.read("in", key="k string", schema="n int").map(stuck, name="f").write("out")
    run = site.deployed(job, on_error="dead-letter", message_timeout="2 seconds")
    goes_on(run)
    assert sorted(v["n"] for v in site.values("out")) == [n for n in range(50) if n != 33]
    assert told(site) == {33: "the function worked on it for more than 2 s: [job] message_timeout"}


@pytest.mark.long
def test_a_lane_that_fails_on_errors_names_the_record(site: Site) -> None:
    put(site, 50)
    job = Job("j")
    killer = 7
    job.read("in", key="k string", schema="n int").map(lambda m: os._exit(1) if m["n"] == killer else m).write("out")
    run = site.deployed(job, on_error="fail")
    run.run()
    error = run.failure()
    assert "map 'map' (test_killed_workers.py:" in error
    assert ": the worker died on it 3 times: it ended with exit code 1, on offset 7 of partition 0" in error
