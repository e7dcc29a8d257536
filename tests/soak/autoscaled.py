"""A job that is too slow for what comes in, and is scaled up by its coordinator, and down again when nothing does."""

from __future__ import annotations

import json
import signal
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from tests.acceptance.harness import Workspace, record_batch
from tests.jobs import JOBS

JOB = JOBS / "slow.py"
RATE, KEYS = 600, 500
LOADED, QUIET = 110.0, 40.0
_EVERY = 0.5
DISTURBED_EVERY = 16
"""Portions of records."""


def scaled_by_itself(
    _: int,
    workspace: Workspace,
    disturb: Callable[[], object] = lambda: None,
    noted: list[dict[str, Any]] | None = None,
) -> str:
    """In one process. While records come in it is scaled up until it keeps up, and stays so; then down to 1.

    ``disturb``: is called every some seconds, and must not change anything. ``noted``: gets the decisions' events.
    """
    slow = Workspace(workspace.folder, job=JOB, job__autoscale__max=16, job__autoscale__cooldown="10 seconds")
    slow.environment |= workspace.environment
    slow.system.create("asked", 2)
    put = 0

    def feed() -> None:
        nonlocal put
        numbers = range(put, put + int(RATE * _EVERY))
        values = [json.dumps({"number": number // KEYS}).encode() for number in numbers]
        slow.append("asked", record_batch([f"k{number % KEYS}".encode() for number in numbers], values))
        put = numbers.stop

    def told(*words: str) -> Any:
        return json.loads(slow.call(*words, "slow", "--json").stdout)

    def lag() -> int:
        return sum(lane["lag"] for lane in told("sizing")["lanes"])

    try:
        feed()
        process = slow.start("run", "slow.py")
        process.until("it runs", lambda: slow.committed("0-") >= 0)
        loaded = time.monotonic() + LOADED
        turn = 0
        while time.monotonic() < loaded:
            begun = time.monotonic()
            feed()
            turn += 1
            if turn % DISTURBED_EVERY == 0:
                disturb()
            time.sleep(max(0.0, begun + _EVERY - time.monotonic()))
        highest = told("status")["factor"]
        assert highest in {4, 8}, f"factor {highest}"
        assert lag() < 5 * RATE, f"it is {lag()} records behind with factor {highest}"
        process.until("it is scaled down", lambda: told("status")["factor"] == 1)
        disturb()
        quiet = time.monotonic() + QUIET
        process.until("time has passed", lambda: time.monotonic() > quiet)
        its = (each for each in told("events") if each["who"] == "autoscale")
        events = [each for each in its if each["generation"]]  # others say what would help
        if noted is not None:
            noted.extend(events)
        ways = _ways(events)
        assert ways == sorted(ways, reverse=True), events
        assert ways.count(True) <= 2, events
        process.popen.send_signal(signal.SIGTERM)
        assert process.wait() == 0, process.stderr
        _check(slow, put)
    finally:
        slow.close()
    return "; ".join(each["why"] for each in events)


def _ways(events: list[dict[str, Any]]) -> list[bool]:
    """Of each decision, whether the factor rose."""
    found = []
    for event in events:
        before, after = (int(word) for word in event["why"].split(",")[0].removeprefix("factor ").split(" → "))
        found.append(after > before)
    return found


def _check(slow: Workspace, put: int) -> None:
    found: dict[bytes | None, list[int]] = defaultdict(list)
    for key, value in slow.contents("done"):
        found[key].append(value["number"])
    assert sum(map(len, found.values())) == put
    assert len(found) == KEYS
    for key, numbers in found.items():
        assert numbers == list(range(len(numbers))), f"{key!r} is out of order, lost or doubled: {numbers[:50]}"
