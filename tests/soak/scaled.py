"""A job whose factor and containers change under load, while containers are killed: real processes."""

from __future__ import annotations

import json
import random
import shutil
import time
from collections import Counter
from collections.abc import Callable, Sequence

from tests.acceptance.harness import INPUT, Process, Workspace, flights
from tests.jobs import JOBS
from tests.soak.served import JOB, Served, ended_well
from tests.support.calm import until_calm

COUNT = 1500
COUNTED = JOBS / "counted" / "delays.py"
_EVERY = 1.0
BOUND = ("setpriv", "--bounding-set", "-dac_override,-dac_read_search", "--inh-caps", "-dac_override,-dac_read_search")
"""Even root must heed who may write a folder."""


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
    """The same with a million records, as fast as the job can read them, and running counts beside the windows."""
    shutil.copy(COUNTED, workspace.folder / "delays.py")
    wishes = [{"factor": 4}, {"containers": 2}, {"factor": 2}, {"containers": 1}, {"factor": 1}]
    told = changed(workspace, seed, wishes, kill_before=1, kill_in=2, count=25_000, portion=25_000, portions=39)
    last = dict(workspace.contents("counts"))
    wanted = Counter(flight["dest"] for flight in flights(seed, 1_000_000))
    assert {key: value["flights"] for key, value in last.items() if key} == {
        dest.encode(): count for dest, count in wanted.items()
    }
    return told


class Fed:
    """A served job that gets a portion of what is kept for later, once a second, while something is waited for."""

    def __init__(self, served: Served, portion: int) -> None:
        self.served = served
        self.workspace = served.workspace
        self.client = self.workspace.client(served.url)
        self._portion = portion
        self._put = 0
        self._fed = time.monotonic()

    def feed(self) -> bool:
        """Whether there was anything left."""
        some = self.served.later[self._put :][: self._portion]
        if some:
            self.workspace.put(some)
        self._put += len(some)
        return bool(some)

    def until(self, what: str, condition: Callable[[], bool]) -> None:
        def fed_and_true() -> bool:
            if time.monotonic() > self._fed + _EVERY:
                self.feed()
                self._fed = time.monotonic()
            return condition()

        self.served.coordinator.until(what, fed_and_true)

    @property
    def state(self) -> str:
        return self.client.status(JOB).state

    def until_it_runs(self) -> None:
        """Until all lanes run, and something was read."""

        def read() -> int:
            lanes = [lane for lane in self.client.status(JOB).lanes if lane.lane.stage == "0"]
            return sum(lane.report.progress.rows for lane in lanes if lane.report is not None)

        self.until("it runs", lambda: self.state == "running" and read() > 0)

    def until_one_stands_by(self) -> None:
        """Until each seat has a container that lives, and there is one more. It need not be the one that came last: one
        that came for another that was killed may come later."""

        def one_does() -> bool:
            status = self.client.status(JOB)
            return status.standing_by > 0 and sum(each.alive is True for each in status.containers) == status.seats

        self.served.coordinator.until("one stands by", one_does)

    def until_all_is_read(self) -> None:
        """Until all that is kept was put and read, and the last windows that end are out."""
        while self.feed():
            pass
        until_calm(self.client, JOB, self.workspace.whole_ends(INPUT), self.until)

    def scaling(self, wish: dict[str, int]) -> Process:
        words = [word for name, value in wish.items() for word in (f"--{name}", str(value))]
        return self.workspace.start("scale", JOB, *words, coordinator__url=self.served.url)

    def end(self, containers: list[Process], verb: Sequence[str] = ("stop",)) -> None:
        """End the job, and see that all came out as it must."""
        self.workspace.call(*verb, JOB, coordinator__url=self.served.url)
        for each in containers:
            ended_well(each)
        self.workspace.check_outputs([*self.served.flights, *self.served.later])
        self.served.end()


def changed(
    workspace: Workspace,
    seed: int,
    wishes: list[dict[str, int]],
    kill_before: int = -1,
    kill_in: int = -1,
    count: int = COUNT,
    portion: int = COUNT // 10,
    portions: int = 40,
    ends: Sequence[str] = ("stop",),
) -> str:
    """A job that is fed all the time goes through changes. A container is killed before one, by its number, and in one.

    ``count`` records are there at first, then so many ``portions`` come. ``ends``: the verb that ends it. Gives what
    happened.
    """
    served = Served(workspace, count=count, seed=seed, later=portion * portions)
    workspace.settings["job__max_rows_per_batch"] = portion
    fed = Fed(served, portion)
    served.start(for_good=True)
    containers = [served.container()]
    fed.until_it_runs()
    seconds = []
    for number, wish in enumerate(wishes):
        if number == kill_before:
            _replace(served, containers)
        fed.until("it runs", lambda: fed.state == "running")
        want = wish.get("containers", len(containers))
        while len(containers) < want:
            containers.append(served.container())
            fed.until_one_stands_by()
        scaling = fed.scaling(wish)
        begun = time.monotonic()
        if number == kill_in:
            fed.until("it changes", lambda: fed.state == "changing")
            _replace(served, containers)
        fed.until("the change is asked for", lambda: scaling.ended)  # noqa: B023
        assert scaling.wait() == 0, scaling.stderr
        seconds.append(time.monotonic() - begun)
        if want < len(containers):
            fed.until("one has left", lambda: any(each.ended for each in containers))
            for each in [each for each in containers if each.ended]:
                ended_well(each)
                containers.remove(each)
        model = fed.client.model(JOB)
        assert wish in ({"factor": model.factor}, {"containers": len(model.containers)})
        lanes = fed.client.status(JOB).lanes
        assert all(lane.report is not None and lane.report.phase == "running" for lane in lanes), lanes
    fed.until_all_is_read()
    held = json.loads(workspace.call("inspect", "state", JOB, "--json", coordinator__url=served.url).stdout)["lanes"]
    lanes = fed.client.status(JOB).lanes
    assert {each["lane"] for each in held} == {each.lane.id for each in lanes if each.lane.stateful}
    assert all(0 <= each["foreignRows"] <= each["rows"] and each["batch"] >= 0 for each in held), held
    fed.end(containers, ends)
    told = ", ".join(f"{next(iter(wish))} {next(iter(wish.values()))}" for wish in wishes)
    return f"{told}; changes took {min(seconds):.1f} to {max(seconds):.1f} s"


def cannot_start(seed: int, workspace: Workspace) -> str:
    """A change gives lanes to a container that can't write the storage root: it goes back, and nothing is lost. Then
    the same change is made with one that can."""
    wish = {"containers": 2} if seed % 2 else {"containers": 2, "factor": 4}
    served = Served(workspace, count=COUNT, seed=seed, later=COUNT * 4)
    workspace.settings["job__max_rows_per_batch"] = COUNT // 10
    fed = Fed(served, COUNT // 10)
    served.start(for_good=True)
    able = served.container()
    fed.until_it_runs()
    unable = served.container(under=BOUND)
    stands_by(unable)
    workspace.lanes.chmod(0o555)
    scaling = fed.scaling(wish)
    fed.until("it has gone back", lambda: scaling.ended)
    assert scaling.wait() == 4, scaling.stderr
    assert "has gone back to factor 1, 1 container(s): lane" in scaling.stderr
    assert "can't start: " in scaling.stderr
    assert "Permission denied" in scaling.stderr
    fed.until("it runs", lambda: fed.state == "running")
    model = fed.client.model(JOB)
    assert (model.factor, len(model.containers)) == (1, 1)

    workspace.lanes.chmod(0o755)
    fed.until("its seat is no more", lambda: unable.ended)
    ended_well(unable)
    containers = [able, served.container()]
    stands_by(containers[-1])
    scaling = fed.scaling(wish)
    fed.until("it has two", lambda: scaling.ended)
    assert scaling.wait() == 0, scaling.stderr
    fed.until_all_is_read()
    fed.end(containers)
    return f"{wish} went back, then it was done"


def _replace(served: Served, containers: list[Process]) -> None:
    """Kill one, and start another that takes its seat."""
    killed = containers.pop(0)
    killed.kill()
    containers.append(served.container())


def stands_by(process: Process) -> None:
    process.until("it stands by", lambda: "standing by" in process.stderr)
