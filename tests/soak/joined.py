"""Two streams are joined while one of them is expanded, and in odd seeds a container killed then: real processes."""

from __future__ import annotations

import bisect
import json
import os
import signal
import socket
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

from anabranch.grouping import expansion
from anabranch.testing.broker import Cluster
from tests.acceptance.harness import PATIENCE, Workspace, record_batch
from tests.jobs import JOBS
from tests.soak.served import SETTINGS, ended_well
from tests.support.calm import until_calm

JOB = "joined"
FILE = JOBS / "joined.py"
ASKED, TOLD = "asked", "told"
COUNT = 500_000
"""Of each stream."""
KEYS = {ASKED: 25_000, TOLD: 20_000}
"""Some have nothing to be joined with."""
FIRST = datetime(2026, 11, 22, tzinfo=UTC)
STEP = {ASKED: timedelta(milliseconds=20), TOLD: timedelta(milliseconds=20)}
_STRIDE = {ASKED: 1, TOLD: 7}
WITHIN = timedelta(minutes=2)
LATER = timedelta(hours=1)
_PORTION = 25_000
_AT_FIRST = 300_000
_LAST = 400
"""So many keys are told of at the end that each partition has one."""

Pair = tuple[int, int | None]


def workspace_of(folder: Path, cluster: Cluster | None, patience: float = PATIENCE) -> Workspace:
    settings = {
        **SETTINGS,
        "coordinator__lease": "12 seconds",
        "job__grouper": "cogroup",
        "job__max_rows_per_batch": 60_000,
    }
    return Workspace(folder, cluster, FILE, patience=max(patience, 300), **settings)


def joined(seed: int, workspace: Workspace) -> str:
    """12 and 8 partitions: four groups of keys; half-way the 8 become 16. Even seeds have factor 1, odd ones 4."""
    factor = 1 if seed % 2 == 0 else 4
    workspace.settings["job__factor"] = factor
    workspace.system.create(ASKED, 12)
    workspace.system.create(TOLD, 8)
    _put(workspace, range(_AT_FIRST))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    client = workspace.client(url)
    coordinator = workspace.start("coordinator", "--port", str(port))
    coordinator.until("its URL", lambda: url in coordinator.stderr)
    workspace.call("start", FILE.name, "--detach", "--coordinator", url)
    container = workspace.start("container", JOB, "--coordinator", url)

    def read() -> int:
        reports = [lane.report for lane in client.status(JOB).lanes]
        return sum(offset for report in reports if report is not None for offset in report.progress.positions.values())

    def runs() -> bool:
        found = client.status(JOB)
        reports = [lane.report for lane in found.lanes]
        its = all(report is not None and report.phase == "running" for report in reports)
        return (found.state, found.generation) == ("running", 2) and its

    coordinator.until("some of it is read", lambda: read() > 100_000)
    assert len(client.model(JOB).stages[0].tasks) == 4 * factor
    begun = read()
    workspace.system.expand(TOLD, 16)
    if seed % 2:
        workspace.call("expand", JOB, "--detach", coordinator__url=url)
        coordinator.until("it changes", lambda: client.status(JOB).state == "changing")
        container.kill()
        container = workspace.start("container", JOB, "--coordinator", url)
    else:
        workspace.call("expand", JOB, coordinator__url=url)
    _put(workspace, range(_AT_FIRST, COUNT))
    coordinator.until("it runs with 16 partitions", runs)
    _put_last(workspace)
    until_calm(client, JOB, workspace.whole_ends(ASKED, TOLD), coordinator.until)
    (stage,) = client.model(JOB).stages
    name = workspace.system.name
    assert expansion.partitions(stage) == {f"{name}/{ASKED}": 12, f"{name}/{TOLD}": 16}
    assert len(stage.tasks) == 4 * factor
    workspace.call("stop", JOB, coordinator__url=url)
    ended_well(container)
    pairs, alone = check(workspace)
    os.kill(coordinator.popen.pid, signal.SIGTERM)
    assert coordinator.wait() == 0, coordinator.stderr
    killed = ", a container killed in it" if seed % 2 else ""
    return (
        f"factor {factor}, {COUNT} records on each side, expanded 8 to 16 when {begun} were read{killed}; "
        f"{pairs} pairs, {alone} alone"
    )


def _key(stream: str, n: int) -> str:
    return f"k{n * _STRIDE[stream] % KEYS[stream]}"


def _put(workspace: Workspace, numbers: range) -> None:
    """In turns, so that the sides are never far apart."""
    for first in range(numbers.start, numbers.stop, _PORTION):
        some = range(first, min(first + _PORTION, numbers.stop))
        for stream in (ASKED, TOLD):
            keys = [_key(stream, n).encode() for n in some]
            times = (FIRST + n * STEP[stream] for n in some)
            _append(workspace, stream, keys, list(zip(some, times, strict=True)))


def _put_last(workspace: Workspace) -> None:
    keys = [f"l{n}".encode() for n in range(_LAST)]
    for stream in (ASKED, TOLD):
        at = FIRST + COUNT * STEP[stream] + LATER
        _append(workspace, stream, keys, [(COUNT + n, at) for n in range(_LAST)])


def _append(workspace: Workspace, stream: str, keys: list[bytes], rows: list[tuple[int, datetime]]) -> None:
    values = [json.dumps({"n": n, "at": at.isoformat()}).encode() for n, at in rows]
    workspace.append(stream, record_batch(keys, values))


def computed() -> Counter[Pair]:
    """The join itself, of all but the last."""
    told: dict[str, list[int]] = {}
    for n in range(COUNT):
        told.setdefault(_key(TOLD, n), []).append(n)
    found: Counter[Pair] = Counter()
    reach = WITHIN // STEP[TOLD]
    for n in range(COUNT):
        its = told.get(_key(ASKED, n), [])
        near = n * STEP[ASKED] // STEP[TOLD]
        some = its[bisect.bisect_left(its, near - reach) : bisect.bisect_right(its, near + reach)]
        found.update([(n, other) for other in some] or [(n, None)])
    return found


def check(workspace: Workspace) -> tuple[int, int]:
    """All pairs came out once, and each row that has none came once alone: how many of both."""
    found: Counter[Pair] = Counter()
    for key, value in workspace.contents("pairs"):
        assert key == value["k"].encode()
        if value["n"] < COUNT:
            found[value["n"], value.get("told_n")] += 1
    wanted = computed()
    assert not found - wanted, f"{(found - wanted).total()} came out too often, as {next(iter(found - wanted))}"
    assert not wanted - found, f"{(wanted - found).total()} are lost, as {next(iter(wanted - found))}"
    alone = sum(other is None for _, other in wanted)
    return len(wanted) - alone, alone
