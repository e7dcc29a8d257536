"""A job whose factor and containers change under load, while containers are killed: real processes."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from typing import Any

from anabranch.coordinator.client import Client
from tests.acceptance.harness import INPUT, Process, Workspace
from tests.failover import JOB, Served, ended_well

COUNT = 1500
_EVERY = 1.0


def scaled(seed: int, workspace: Workspace) -> str:
    """Factor and containers go up and down in an order by chance; a container is killed before a change, and one while
    a change is under way."""
    dice = random.Random(seed)
    wishes = [{"factor": 4}, {"containers": 2}, {"factor": 2}, {"containers": 1}, {"factor": 1}]
    if seed % 2:
        wishes = [{"containers": 2}, {"factor": 8}, {"containers": 1}, {"factor": 1}]
    stay = [number for number, wish in enumerate(wishes) if number > 1 and "containers" not in wish]
    return changed(workspace, seed, wishes, kill_before=dice.randrange(1, 3), kill_in=dice.choice(stay))


def million(seed: int, workspace: Workspace) -> str:
    """The same with a million records, as fast as the job can read them."""
    wishes = [{"factor": 4}, {"containers": 2}, {"factor": 2}, {"containers": 1}, {"factor": 1}]
    return changed(workspace, seed, wishes, kill_before=1, kill_in=2, count=25_000, portion=25_000, portions=39)


def changed(
    workspace: Workspace,
    seed: int,
    wishes: list[dict[str, int]],
    kill_before: int = -1,
    kill_in: int = -1,
    count: int = COUNT,
    portion: int = COUNT // 10,
    portions: int = 40,
) -> str:
    """A job that is fed all the time goes through changes. A container is killed before one, by its number, and in one.

    ``count`` records are there at first, then so many ``portions`` come. Gives what happened.
    """
    served = Served(workspace, count=count, seed=seed, later=portion * portions)
    workspace.settings["job__max_rows_per_batch"] = portion
    client = Client(served.url)
    served.start(for_good=True)
    containers = [served.container()]
    put = len(served.flights)

    def feed() -> None:
        nonlocal put
        if put < len(served.flights) + len(served.later):
            workspace.put(served.later[put - len(served.flights) :][:portion])
            put += portion

    def until(what: str, condition: Callable[[], bool]) -> None:
        fed = time.monotonic()

        def fed_and_true() -> bool:
            nonlocal fed
            if time.monotonic() > fed + _EVERY:
                feed()
                fed = time.monotonic()
            return condition()

        served.coordinator.until(what, fed_and_true)

    def state() -> str:
        return client.status(JOB).state

    def read() -> int:
        lanes = [lane for lane in client.status(JOB).lanes if lane.lane.stage == "0" and lane.report is not None]
        return sum(lane.report.rows for lane in lanes if lane.report is not None)

    until("it runs", lambda: state() == "running" and read() > 0)
    seconds = []
    for number, wish in enumerate(wishes):
        if number == kill_before:
            _replace(served, containers)
        until("it runs", lambda: state() == "running")
        want = wish.get("containers", len(containers))
        while len(containers) < want:
            containers.append(served.container())
            _stands_by(containers[-1])
        scaling = _scaling(workspace, served, wish)
        begun = time.monotonic()
        if number == kill_in:
            until("it changes", lambda: state() == "changing")
            _replace(served, containers)
        until("the change is asked for", lambda: scaling.ended)  # noqa: B023
        assert scaling.wait() == 0, scaling.stderr
        seconds.append(time.monotonic() - begun)
        if want < len(containers):
            until("one has left", lambda: any(each.ended for each in containers))
            for each in [each for each in containers if each.ended]:
                ended_well(each)
                containers.remove(each)
        model = client.model(JOB)
        assert wish in ({"factor": model.factor}, {"containers": len(model.containers)})
        lanes = client.status(JOB).lanes
        assert all(lane.report is not None and lane.report.phase == "running" for lane in lanes), lanes
    while put < len(served.flights) + len(served.later):
        feed()
    total = sum(workspace.ends()[INPUT].values())

    def all_read() -> bool:
        lanes = client.status(JOB).lanes
        ends = [lane.report.positions for lane in lanes if lane.report is not None]
        first = [sum(o for ssp, o in each.items() if f"/{INPUT}/" in ssp) for each in ends]
        return all(lane.lag == 0 for lane in lanes) and max(first) <= total and _reaches(lanes, total)

    until("all is read", all_read)
    _settles(served, until)
    held = json.loads(workspace.call("inspect", "state", JOB, "--json", coordinator__url=served.url).stdout)["lanes"]
    assert {each["lane"] for each in held} == {each.lane.id for each in client.status(JOB).lanes if each.lane.stateful}
    assert all(0 <= each["foreignRows"] <= each["rows"] and each["batch"] >= 0 for each in held), held
    workspace.call("stop", JOB, coordinator__url=served.url)
    for each in containers:
        ended_well(each)
    workspace.check_outputs([*served.flights, *served.later])
    served.end()
    told = ", ".join(f"{next(iter(wish))} {next(iter(wish.values()))}" for wish in wishes)
    return f"{told}; changes took {min(seconds):.1f} to {max(seconds):.1f} s"


def _scaling(workspace: Workspace, served: Served, wish: dict[str, int]) -> Process:
    words = [word for name, value in wish.items() for word in (f"--{name}", str(value))]
    return workspace.start("scale", JOB, *words, coordinator__url=served.url)


def _replace(served: Served, containers: list[Process]) -> None:
    """Kill one, and start another that takes its seat."""
    killed = containers.pop(0)
    killed.kill()
    containers.append(served.container())


def _stands_by(process: Process) -> None:
    process.until("it stands by", lambda: "standing by" in process.stderr)


def _reaches(lanes: Any, total: int) -> bool:
    """Whether the lanes of stage 0 have read each partition to its end."""
    at: dict[str, int] = {}
    for lane in lanes:
        if lane.report is not None and lane.lane.stage == "0":
            for ssp, offset in lane.report.positions.items():
                if f"/{INPUT}/" in ssp:
                    at[ssp] = min(offset, at.get(ssp, offset))
    return sum(at.values()) == total


def _settles(served: Served, until: Callable[[str, Callable[[], bool]], None]) -> None:
    """Wait until event time goes on no more: the last windows that end are out."""
    client = Client(served.url)
    seen: list[tuple[float, Any]] = []

    def calm() -> bool:
        now = [(lane.report.watermark, lane.report.batch) for lane in client.status(JOB).lanes if lane.report]
        if not seen or seen[-1][1] != now:
            seen.append((time.monotonic(), now))
        return time.monotonic() > seen[-1][0] + 5

    until("it is calm", calm)
