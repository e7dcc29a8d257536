"""A job that drains under load while its container or its coordinator is killed, at each step of it: real processes."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import closing

from anabranch import crash_points
from anabranch.coordinator.store import Store
from anabranch.errors import NotLeadingError
from tests.acceptance.harness import INPUT, LATE, TABLE, Flight, Process, Workspace, check_late, flights
from tests.jobs import JOBS
from tests.soak.scaled import Fed
from tests.soak.served import JOB, Served, ended_well

STUCK = JOBS / "stuck" / "delays.py"
COUNT = 2000
PORTION = 200
_OF_CONTAINERS = [
    f"{stage}-:{step}:0+"
    for stage in (0, 1)
    for step in crash_points.OF_DRAINS
    if (stage, step) != (1, crash_points.HALTED)
]
_OF_COORDINATORS = ["draining", "until", "last", "ended", "drained"]
"""What is stored when the coordinator is killed. ``ended``: stage 0 has; when stage 1 has, the job is drained."""
STEPS = [*_OF_CONTAINERS, *_OF_COORDINATORS]
"""Where something is killed. A lane of stage 1 has nothing to tell when it halts."""


def drained(seed: int, workspace: Workspace) -> str:
    """Each seed is one step; up to what is planned, or to the latest. Then the job runs again, and drains again."""
    step, mode = STEPS[seed % len(STEPS)], ("planned", "latest")[seed // len(STEPS) % 2]
    served = Served(workspace, count=COUNT, seed=seed, later=PORTION * 60)
    workspace.settings["job__max_rows_per_batch"] = PORTION
    fed = Fed(served, PORTION)
    served.start(for_good=True)
    container = served.container(hold=step if step in _OF_CONTAINERS else "")
    fed.until_it_runs()
    asked = workspace.start("drain", JOB, "--up-to", mode, coordinator__url=served.url)
    others = _strike(fed, container, step)
    fed.until("it has drained", lambda: has_drained(asked, others))
    assert asked.wait() == 0, asked.stderr
    for each in others:
        ended_well(each)
    cut = taken(workspace)
    check(workspace, cut)

    fed.until("a coordinator leads", lambda: _leads(fed))  # it may have been killed when the job had drained
    workspace.settings["job__max_rows_per_batch"] = COUNT  # by now much is waiting
    workspace.call("start", f"{JOB}.py", "--detach", "--coordinator", served.url)
    second = served.container()
    fed.until("it runs again", lambda: fed.client.status(JOB).deployment == 2 and fed.state == "running")
    workspace.call("drain", JOB, "--up-to", "latest", coordinator__url=served.url)
    ended_well(second)
    whole = taken(workspace)
    check(workspace, cut, [flight for flight in whole if flight not in cut])
    served.end()
    return f"killed at {step}, up to {mode}: {len(cut)} taken in, then {len(whole) - len(cut)}"


def stuck(seed: int, workspace: Workspace) -> str:
    """A function never returns: a drain gives up, and names the message; the job goes back to running, and loses
    nothing. By even seeds the drain's own timeout comes first, by odd ones that of a message, a minute."""
    shutil.copy(STUCK, workspace.folder / "delays.py")
    hang = workspace.folder / "hang"
    hang.touch()
    several = flights(seed=seed, count=COUNT)
    workspace.settings |= {"job__max_rows_per_batch": PORTION, "job__factor": 4}
    workspace.put(several)
    process = workspace.start("run", "delays.py")
    process.until("it runs", lambda: f"{JOB} running: " in process.stderr)
    (at,) = [(p, o) for p, o, value, _ in workspace.raw(INPUT) if json.loads(value)["origin"] == "EWR-1500"]
    process.until("it is near", lambda: _near(workspace, *at))
    told = workspace.call("drain", JOB, "--up-to", "latest", "--timeout", "600" if seed % 2 else "20", code=5).stderr
    assert (
        f"offset {at[1]} of embedded/{INPUT}/{at[0]}" in told or f"offset {at[1]} of kafka/{INPUT}/{at[0]}" in told
    ), told
    assert "of 4)" in told
    workspace.call("cancel", JOB)
    assert workspace.status()["state"] == "running"
    hang.unlink()
    workspace.call("drain", JOB, "--up-to", "latest")
    assert process.wait() == 0, process.stderr
    check(workspace, taken(workspace))
    assert len(taken(workspace)) == COUNT
    return f"stuck at {at}"


def _near(workspace: Workspace, partition: int, offset: int) -> bool:
    """Whether the next batches have a record."""
    positions = workspace.lane("0-").positions
    return positions.get(INPUT, {}).get(partition, 0) + PORTION > offset


def _strike(fed: Fed, container: Process, step: str) -> list[Process]:
    """Kill who is to be killed; gives the containers that go on."""
    served = fed.served
    if step in _OF_CONTAINERS:
        container.held()
        container.kill()
        return [served.container()]

    def there() -> bool:
        status = fed.client.status(JOB)
        drain = status.drain
        if drain is None:
            return status.state == "drained"
        ended = all(each.lane.stage != "0" for each in status.lanes)
        there = {"draining": True, "until": drain.until is not None, "last": drain.last, "ended": ended}
        return there.get(step, False)

    fed.until(step, there)
    served.coordinator.kill()
    served.lead()
    return [container]


def _leads(fed: Fed) -> bool:
    try:
        fed.client.holds_seat("whoever")
    except NotLeadingError:
        return False
    return True


def has_drained(asked: Process, containers: Iterable[Process]) -> bool:
    """Whether the verb has ended; a container that died would be waited for in vain."""
    for each in containers:
        assert not each.ended or each.wait() == 0, f"a container ended with {each.wait()}:\n{each.stderr}"
    return asked.ended


def taken(workspace: Workspace) -> list[Flight]:
    """The records before the positions that the last deployment has left: each partition at one place."""
    with closing(Store.open_existing(f"sqlite:///{workspace.folder}/.anabranch/coordinator.db")) as store:
        lanes = store.lanes(JOB).values()
    last = max(lane.deployment for lane in lanes)
    left: dict[int, int] = {}
    for lane in lanes:
        for position in lane.final if lane.deployment == last else ():
            if position.ssp.stream == INPUT:
                assert left.setdefault(position.ssp.partition, position.offset) == position.offset, left
    found: list[Flight] = []
    for number, end in left.items():
        for _, batch in workspace.system.read(INPUT, number, [(0, end)]) if end else ():
            for key, value in zip(batch["key"].to_pylist(), batch["value"].to_pylist(), strict=True):
                found.append({"tailnum": None if key is None else key.decode(), **json.loads(value)})
    return found


def windows(several: Iterable[Flight]) -> Counter[tuple[str, str, int]]:
    """What a batch computation gives: destination, hour and count."""
    counts = Counter((flight["dest"], flight["at"][:13]) for flight in several)
    return Counter((dest, hour, count) for (dest, hour), count in counts.items())


def check(workspace: Workspace, *parts: Sequence[Flight]) -> None:
    """Each part has all of its windows, as if it was all there is; late flights are there once."""
    rows = [value for _, value in workspace.contents(TABLE)]
    found = Counter((value["dest"], value["window_start"][:13], value["flights"]) for value in rows)
    wanted = sum((windows(part) for part in parts), Counter[tuple[str, str, int]]())
    assert found == wanted, f"missing {wanted - found}, too many {found - wanted}"
    check_late(list(workspace.contents(LATE)), [flight for part in parts for flight in part])
