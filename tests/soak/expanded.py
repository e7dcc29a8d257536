"""A job whose input gets more partitions under load, while processes are killed: real processes."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from anabranch.coordinator.api.client import Client
from anabranch.grouping import expansion
from anabranch.model.hashing import bucket, partition_for
from anabranch.testing.broker import Cluster
from tests.acceptance.harness import PATIENCE, Process, Workspace, record_batch
from tests.jobs import JOBS
from tests.soak.served import SETTINGS, ended_well
from tests.support.calm import until_calm

JOB, INPUT, OTHER = "counted", "numbers", "others"
OUTPUTS = ("seen", "counts", "windows")
COUNTED = JOBS / "counted.py"
KEYS = 211
SEED = ((1, 1), (4, 1), (1, 2), (4, 2))
"""Factor and containers, by seed."""
_RATE = 2000
"""Records a second."""
_STEP = timedelta(milliseconds=2)
_FIRST = datetime(2026, 11, 22, tzinfo=UTC)
_WINDOW = 10


def workspace_of(folder: Path, cluster: Cluster | None, patience: float = PATIENCE) -> Workspace:
    told = {f"streams__{output}__task_header": True for output in OUTPUTS}
    settings = {**SETTINGS, **told, "coordinator__lease": "12 seconds", "job__max_rows_per_batch": 20_000}
    return Workspace(folder, cluster, COUNTED, patience=patience, **settings)


class Numbers:
    """What is put: at its rate, by whoever calls."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.count = 0
        self._begun = time.monotonic()
        workspace.system.create(INPUT, 2)
        workspace.system.create(OTHER, 2)
        keys = [f"o{n % 7}".encode() for n in range(70)]
        workspace.append(OTHER, record_batch(keys, [json.dumps({"n": n}).encode() for n in range(70)]))

    def put(self) -> None:
        """Those that are due; by a producer that knows the partitions that there are now."""
        due = int((time.monotonic() - self._begun) * _RATE)
        self._put(range(self.count, min(due, self.count + 5 * _RATE)))

    def end(self) -> None:
        """One of each key, an hour later: all windows before end."""
        self._put(range(self.count, self.count + KEYS), timedelta(hours=1))

    def _put(self, numbers: range, later: timedelta = timedelta(0)) -> None:
        if not numbers:
            return
        keys = [_key(n).encode() for n in numbers]
        values = [json.dumps({"n": n, "at": (_FIRST + n * _STEP + later).isoformat()}).encode() for n in numbers]
        self.workspace.append(INPUT, record_batch(keys, values))
        self.count = numbers.stop


def _key(number: int) -> str:
    return f"k{number % KEYS}"


def expanded(seed: int, workspace: Workspace) -> str:
    """2 → 4 → 8 partitions while it runs, told to or not: a container is killed in one of the changes, in the other the
    coordinator behind the store, before it has told anybody."""
    dice = random.Random(seed)
    factor, containers = SEED[seed % len(SEED)]
    workspace.settings |= {"job__factor": factor, "job__containers": containers, "job__expansion_check": "2 seconds"}
    numbers = Numbers(workspace)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    client = workspace.client(url)

    def lead() -> Process:
        process = workspace.start("coordinator", "--port", str(port))
        process.until("its URL", lambda: url in process.stderr)
        return process

    coordinator = lead()
    workspace.call("start", f"{JOB}.py", "--detach", "--coordinator", url)
    running = [workspace.start("container", JOB, "--coordinator", url) for _ in range(containers)]

    def until(what: str, condition: Callable[[], bool]) -> None:
        def fed() -> bool:
            numbers.put()
            time.sleep(0.1)
            return condition()

        coordinator.until(what, fed)

    def runs(generation: int) -> bool:
        found = client.status(JOB)
        reports = [lane.report for lane in found.lanes]
        its = all(report is not None and report.phase == "running" for report in reports)
        return (found.state, found.generation) == ("running", generation) and its

    def read() -> int:
        """Of the input, by the lanes of one group."""
        at: dict[str, int] = {}
        for lane in client.status(JOB).lanes:
            if lane.report is not None and lane.lane.group == "counts":
                for ssp, offset in lane.report.progress.positions.items():
                    at[ssp] = min(offset, at.get(ssp, offset))
        return sum(at.values())

    def kill_a_container() -> None:
        until("it changes", lambda: client.status(JOB).state == "changing")
        killed = running.pop(dice.randrange(len(running)))
        killed.kill()
        running.append(workspace.start("container", JOB, "--coordinator", url))

    def kill_the_coordinator(partitions: int, generation: int) -> Process:
        for each in running:
            each.freeze()
        if dice.randrange(2):
            workspace.call("expand", JOB, "--detach", coordinator__url=url)
        until("it is stored", lambda: client.model(JOB).generation == generation)
        os.kill(coordinator.popen.pid, signal.SIGKILL)
        coordinator.wait()
        follower = lead()
        assert client.model(JOB).expands == (f"{workspace.system.name}/{INPUT}",)
        for each in running:
            each.wake()
        return follower

    until("it runs", lambda: runs(1) and read() > 5000)
    seconds = []
    kinds = ["container", "coordinator"]
    dice.shuffle(kinds)
    for generation, (partitions, kind) in enumerate(zip((4, 8), kinds, strict=True), 2):
        others = _runs(client, "other")
        assert all(run for _, run in others), others
        workspace.system.expand(INPUT, partitions)
        begun = time.monotonic()
        if kind == "container":
            kill_a_container()
        else:
            coordinator = kill_the_coordinator(partitions, generation)
        until(f"it runs with {partitions} partitions", lambda: runs(generation))  # noqa: B023
        seconds.append(time.monotonic() - begun)
        before = read()
        until("it reads on", lambda: read() > before + 2 * _RATE)  # noqa: B023
        now = _runs(client, "other")
        assert {lane for lane, _ in now} == {lane for lane, _ in others}, "a lane that is not concerned was closed"
        # A container that is killed takes its queries with it; else one that isn't concerned is never begun again.
        assert kind == "container" or now == others, "the query of a lane that is not concerned was begun again"
    numbers.end()
    ends = workspace.system.ends(INPUT)
    assert len(ends) == 8
    assert all(ends.values()), ends
    until_calm(client, JOB, workspace.whole_ends(INPUT, OTHER), coordinator.until)
    (stage,) = (each for each in client.model(JOB).stages if f"{workspace.system.name}/{INPUT}" in each.inputs)
    assert set(expansion.base_partitions(stage).values()) == {2}
    assert len(stage.tasks) == 2 * factor
    workspace.call("stop", JOB, coordinator__url=url)
    for each in running:
        ended_well(each)
    check(workspace, numbers.count)
    check_tasks(workspace, factor)
    os.kill(coordinator.popen.pid, signal.SIGTERM)
    assert coordinator.wait() == 0, coordinator.stderr
    told = " and ".join(f"{kind} killed, {took:.0f} s" for kind, took in zip(kinds, seconds, strict=True))
    return f"factor {factor}, {containers} container(s), {numbers.count} records; {told}"


def _runs(client: Client, group: str) -> set[tuple[str, str]]:
    """The lanes of a group, each with Spark's id of its run."""
    found = [lane for lane in client.status(JOB).lanes if lane.lane.group == group]
    return {(lane.lane.id, lane.report.attempt.run if lane.report is not None else "") for lane in found}


def check(workspace: Workspace, count: int) -> None:
    """Every record passed once; each key has one count, which is exact; so are the windows that have ended."""
    seen = Counter(value["n"] for _, value in workspace.contents("seen"))
    wanted = Counter(range(count))
    assert not seen - wanted, f"{len(seen - wanted)} came out more than once"
    assert not wanted - seen, f"{len(wanted - seen)} are lost"
    states: dict[str, list[Any]] = defaultdict(list)
    for key, value in workspace.contents("counts"):
        assert key == value["k"].encode()
        states[value["k"]].append(value)
    assert set(states) == {_key(n) for n in range(KEYS)}
    for key, its in states.items():
        rising = [value["n"] for value in its]
        assert rising == sorted(set(rising)), f"{key} has several states"
        numbers = [n for n in range(count) if _key(n) == key]
        assert (rising[-1], its[-1]["last"]) == (len(numbers), numbers[-1])
    windows: Counter[tuple[str, int]] = Counter()
    for n in range(count - KEYS):
        windows[_key(n), int((n * _STEP).total_seconds()) // _WINDOW] += 1
    found: dict[tuple[str, int], int] = {}
    for _, value in workspace.contents("windows"):
        begin = datetime.fromisoformat(value["window_start"]).replace(tzinfo=UTC)
        place = value["k"], int((begin - _FIRST).total_seconds()) // _WINDOW
        assert place not in found, f"window {place} came out twice"
        found[place] = value["n"]
    assert found == dict(windows)


def check_tasks(workspace: Workspace, factor: int) -> None:
    """Every record tells its task, before and after: the one that had its key when there were 2 partitions."""
    for output in OUTPUTS:
        told = Counter(_told(workspace, output))
        assert {key for key, _ in told} == {_key(n).encode() for n in range(KEYS)}
        for key, task in told:
            part = f"-{bucket(key, 0, factor)}-{factor}" if factor > 1 else ""
            assert task == f"Partition_{partition_for(key, 2)}{part}", f"{output}: {key!r} was in {task}"


def _told(workspace: Workspace, stream: str) -> Iterator[tuple[bytes, str]]:
    for number, end in workspace.system.ends(stream).items():
        for _, batch in workspace.system.read(stream, number, [(0, end)]):
            for key, headers in zip(batch["key"].to_pylist(), batch["headers"].to_pylist(), strict=True):
                (task,) = (each["value"] for each in headers if each["key"] == "anabranch.task")
                yield key, task.decode()
