"""The job ``every`` drains while it is fed, and a container is killed in that; and what must have come out of it.

A *part* is what one deployment has taken in: the rows of each stream.
"""

from __future__ import annotations

import json
import signal
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from anabranch import crash_points
from anabranch.coordinator.store import Store
from anabranch.model.ssp import SSP
from anabranch.planning.transition import after_drain
from anabranch.testing.broker import Cluster
from tests.acceptance.harness import PATIENCE, Process, Workspace, record_batch
from tests.jobs import JOBS
from tests.soak import joining
from tests.soak.drained import has_drained
from tests.soak.joining import Row
from tests.soak.served import SETTINGS, ended_well

FILE = JOBS / "every.py"
JOB = "every"
ASKED, TOLD, RULES = "asked", "told", "rules"
MAKE: dict[str, Callable[[int], Row]] = {
    ASKED: joining.asked,
    TOLD: joining.told,
    RULES: lambda n: (joining.KEYS[n % 5], -1 - n, joining.FIRST),
}
OUTPUTS = ("pairs", "kinds", "minutely", "minutes", "windows", "given")
BETWEEN = ("every-by-n-1", "every-by-kind-1", "every-by-minute-1")
STEPS = [
    f"{stage}-:{step}:0+"
    for stage in (0, 2, 3)
    for step in crash_points.OF_DRAINS
    if stage == 0 or step != crash_points.HALTED
]
"""Where it is killed. Stage 1 has neither state nor time: it just ends when it has read all."""
_PARTITIONS = 2
_PORTION = {ASKED: 50, TOLD: 60, RULES: 10}
"""Of each stream, so that both sides of the join are at one time."""
_EVERY = 1.0
_AT_FIRST = 10
Part = Mapping[str, Sequence[Row]]
Values = Mapping[str, Sequence[Any]]


def value_of(stream: str, row: Row) -> dict[str, Any]:
    _, n, at = row
    return {"n": n} if stream == RULES else {"n": n, "at": at.isoformat()}


def workspace_of(folder: Path, cluster: Cluster | None, patience: float = PATIENCE) -> Workspace:
    return Workspace(folder, cluster, FILE, patience=patience, **SETTINGS, job__max_rows_per_batch=1000)


class Fed:
    """The job under a coordinator; its streams get a portion a second while something is waited for."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        for stream in MAKE:
            workspace.system.create(stream, _PARTITIONS)
        self._portions = 0
        for _ in range(_AT_FIRST):
            self.feed()
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.client = workspace.client(self.url)
        self.coordinator = workspace.start("coordinator", "--port", str(port))
        self.coordinator.until("its URL", lambda: self.url in self.coordinator.stderr)

    def feed(self) -> None:
        for stream, size in _PORTION.items():
            rows = [MAKE[stream](n) for n in range(self._portions * size, (self._portions + 1) * size)]
            values = [json.dumps(value_of(stream, row)).encode() for row in rows]
            self.workspace.append(stream, record_batch([key.encode() for key, _, _ in rows], values))
        self._portions += 1

    def until(self, what: str, condition: Callable[[], bool]) -> None:
        fed = time.monotonic()

        def fed_and_true() -> bool:
            nonlocal fed
            if time.monotonic() > fed + _EVERY:
                self.feed()
                fed = time.monotonic()
            return condition()

        self.coordinator.until(what, fed_and_true)

    def container(self, hold: str = "") -> Process:
        return self.workspace.start("container", JOB, "--coordinator", self.url, hold=hold)

    def run(self, deployment: int, hold: str = "") -> Process:
        """Start the job, with a container; until each lane has read something, or has nothing before it."""
        self.workspace.call("start", FILE.name, "--detach", "--coordinator", self.url)
        container = self.container(hold)

        def runs() -> bool:
            found = self.client.status(JOB)
            first = [lane.report for lane in found.lanes if lane.lane.stage == "0"]
            its = all(report is not None and report.progress.rows > 0 for report in first)
            return (found.state, found.deployment) == ("running", deployment) and its

        self.until("it runs", runs)
        return container


def emptied(seed: int, workspace: Workspace) -> str:
    """Each seed is one step at which the container is killed, up to what is planned or to the latest; factor 1 or 4.
    Then the job runs again, and drains the other way."""
    step, mode = STEPS[seed % len(STEPS)], (seed + seed // len(STEPS)) % 2
    modes = ("planned", "latest")
    workspace.settings["job__factor"] = (1, 4)[seed // 2 % 2]
    fed = Fed(workspace)
    container = fed.run(1, hold=step)
    asked = workspace.start("drain", JOB, "--up-to", modes[mode], coordinator__url=fed.url)
    fed.until("it holds", container.note.exists)
    container.kill()
    other = fed.container()
    fed.until("it has drained", lambda: has_drained(asked, [other]))
    assert asked.wait() == 0, asked.stderr
    ended_well(other)
    first = taken(workspace)

    second = fed.run(2)
    asked = workspace.start("drain", JOB, "--up-to", modes[1 - mode], coordinator__url=fed.url)
    fed.until("it has drained again", lambda: has_drained(asked, [second]))
    assert asked.wait() == 0, asked.stderr
    ended_well(second)
    rest = {stream: [row for row in rows if row not in first[stream]] for stream, rows in taken(workspace).items()}
    check({stream: [value for _, value in workspace.contents(stream)] for stream in OUTPUTS}, _PARTITIONS, first, rest)
    fed.coordinator.popen.send_signal(signal.SIGTERM)
    assert fed.coordinator.wait() == 0, fed.coordinator.stderr
    counts = " then ".join(str(sum(map(len, part.values()))) for part in (first, rest))
    return f"killed at {step}, up to {modes[mode]}, factor {workspace.settings['job__factor']}: {counts} taken in"


def taken(workspace: Workspace) -> dict[str, list[Row]]:
    """All that was taken in when the job has drained; nothing is left of the streams between its stages."""
    left = positions(workspace.folder / ".anabranch")
    found: dict[str, list[Row]] = {stream: [] for stream in MAKE}
    for ssp, at in left.items():
        if ssp.stream in found:
            numbers = [value["n"] for value in _read(workspace, ssp, 0, at)]
            found[ssp.stream] += [MAKE[ssp.stream](-1 - n if ssp.stream == RULES else n) for n in numbers]
        else:
            assert ssp.stream in BETWEEN
            assert not _read(workspace, ssp, at, workspace.system.ends(ssp.stream)[ssp.partition])
    assert {ssp.stream for ssp in left} == {*MAKE, *BETWEEN}
    return found


def _read(workspace: Workspace, ssp: SSP, begin: int, end: int) -> list[Any]:
    batches = workspace.system.read(ssp.stream, ssp.partition, [(begin, end)]) if end > begin else ()
    return [json.loads(value) for _, batch in batches for value in batch["value"].to_pylist()]


def check(found: Values, partitions: int, *parts: Part) -> None:
    """Windows, timers and joins are those of each part, as if it was all there is; running counts those of all."""
    pairs = [joining.computed(list(part[ASKED]), list(part[TOLD]), "left") for part in parts]
    _same(((v["k"], v["n"], v.get("told_n")) for v in found["pairs"]), sum(pairs, Counter()))
    kinds = Counter(number is None for each in pairs for _, _, number in each.elements())
    assert _last(found["kinds"], "alone") == kinds

    minutes = [Counter((k, _minute(at) + 1) for k, _, at in part[ASKED]) for part in parts]
    told = (((v["k"], _minute(_at(v["ends"]))), v["n"]) for v in found["minutely"])
    _same(told, _summed(minutes))
    ended = Counter(ends for each in minutes for _, ends in each)
    assert {_minute(_at(ends)): n for ends, n in _last(found["minutes"], "ends").items()} == ended

    windows = [Counter((n % 5, _minute(at)) for _, n, at in part[TOLD]) for part in parts]
    _same((((v["five"], _minute(_at(v["window_start"]))), v["n"]) for v in found["windows"]), _summed(windows))
    _check_given(found["given"], partitions, parts)


def _check_given(values: Sequence[Any], partitions: int, parts: Sequence[Part]) -> None:
    """Each task has counted its own rows, and all rules."""
    asked = Counter(k for part in parts for k, _, _ in part[ASKED])
    rules = Counter(k for part in parts for k, _, _ in part[RULES])
    for key in asked.keys() | rules.keys():
        its = Counter((v["n"], v["of_rules"]) for v in values if v["k"] == key)
        assert max(its) == (asked[key] + rules[key], rules[key]), key
        others = partitions - 1
        assert its[rules[key], rules[key]] >= (others if rules[key] else 0), (key, its)


def _last(values: Sequence[Any], key: str) -> dict[Any, int]:
    """The last count of each key; counts rise, also from one deployment to the next."""
    last: dict[Any, int] = {}
    for value in values:
        assert value["n"] > last.get(value[key], 0), value
        last[value[key]] = value["n"]
    return last


def _summed(several: Iterable[Counter[Any]]) -> Counter[Any]:
    """A row for each part that has something of it."""
    return Counter(item for each in several for item in each.items())


def _same(found: Iterable[Any], wanted: Counter[Any]) -> None:
    came = Counter(found)
    assert came == wanted, f"missing {list((wanted - came).items())[:5]}, too many {list((came - wanted).items())[:5]}"


def _minute(at: datetime) -> int:
    return int(at.timestamp()) // 60


def _at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def positions(folder: Path) -> dict[SSP, int]:
    """Where the deployment after the last drained one begins, of all streams, by the store in a folder."""
    with closing(Store.open_existing(f"sqlite:///{folder / 'coordinator.db'}")) as store:
        (job,) = store.jobs()
        last = store.deployment(job)
        while last is not None and last.state != "drained":
            last = store.deployment(job, last.id - 1)
        assert last is not None
        lanes = [lane for lane in store.lanes(job).values() if lane.deployment <= last.id]
        return after_drain.positions(lanes, store.graph(job, last.id))
