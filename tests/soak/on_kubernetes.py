"""The pods of examples/deploy/kubernetes as processes: a coordinator and containers are evicted, killed and replaced
while records come."""

from __future__ import annotations

import itertools
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from anabranch.coordinator.api.client import AWAY, Client
from anabranch.errors import NotFoundError
from tests.acceptance.harness import INPUT, JOB, Workspace, flights
from tests.soak.served import seat_of
from tests.support import postgres
from tests.support.calm import until_calm
from tests.support.pods import Cluster, Pod

__all__ = ["cluster_of", "coordinators", "leads", "moved"]

COORDINATOR, CONTAINER = "anabranch-coordinator", "delays-container"
COUNT, PORTION, PORTIONS = 1500, 150, 80
TOKEN, PASSWORD = "token-of-tests", postgres.PASSWORD
_EVERY = 1.0
_READY_WITHIN = 60.0
ZONES = ("zone-a", "zone-b")


@contextmanager
def cluster_of(workspace: Workspace) -> Iterator[Cluster]:
    """A cluster with a PostgreSQL, whose verbs ask both coordinators."""
    with postgres.serving() as server:
        store = server.new_database()
        database = store.rpartition("/")[2]
        secrets = {"anabranch/token": TOKEN, "anabranch/store-password": PASSWORD}
        hosts = {"postgres:5432/anabranch": f"127.0.0.1:{server.port}/{database}"}
        zones = {f"{CONTAINER}-{number}": ZONES[number % len(ZONES)] for number in range(10)}
        cluster = Cluster(workspace, secrets, hosts, zones)
        workspace.environment["ANABRANCH_TOKEN"] = TOKEN
        workspace.settings["coordinator__url"] = cluster.urls(COORDINATOR)
        workspace.settings["coordinator__token"] = "${env:ANABRANCH_TOKEN}"
        yield cluster


def coordinators(cluster: Cluster) -> dict[str, Pod]:
    """Those of the StatefulSet, both ready."""
    pods = [cluster.start(COORDINATOR, f"{COORDINATOR}-{number}") for number in range(2)]
    for pod in pods:
        pod.process.until("it is ready", lambda pod=pod: pod.is_ready)
    return {pod.name: pod for pod in pods}


class Running:
    """The job on the cluster, which gets a portion of records once a second while something is waited for."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self.cluster = cluster
        self.workspace = cluster.workspace
        self.flights = flights(seed, COUNT + PORTION * PORTIONS)
        self.put = 0
        self.client = Client(cluster.urls(COORDINATOR), token=TOKEN)
        self._numbers = itertools.count()
        self._fed = time.monotonic()
        self.feed(COUNT)

    def feed(self, count: int) -> None:
        self.workspace.put(self.flights[self.put :][:count])
        self.put = min(len(self.flights), self.put + count)

    def container(self) -> Pod:
        return self.cluster.start(CONTAINER, f"{CONTAINER}-{next(self._numbers)}")

    def until(self, what: str, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + self.workspace.patience
        while not condition():
            assert time.monotonic() < end, f"no {what}"
            if self.put < len(self.flights) and time.monotonic() > self._fed + _EVERY:
                self.feed(PORTION)
                self._fed = time.monotonic()
            time.sleep(0.1)

    def until_read(self) -> None:
        """Until more was read than is read now."""
        read = self.workspace.read("0-")
        self.until("more is read", lambda: self.workspace.read("0-") > read + PORTION)


def moved(seed: int, workspace: Workspace) -> str:
    """The pod of a coordinator is evicted, which may lead; then a container's is, and another one is killed, as for its
    memory. Each is replaced."""
    dice = random.Random(seed)
    workspace.settings["job__max_rows_per_batch"] = PORTION
    with ExitStack() as stack:
        cluster = stack.enter_context(cluster_of(workspace))
        leading = coordinators(cluster)
        job = Running(cluster, seed)
        workspace.call("start", f"{JOB}.py", "--detach")
        seated = job.container()
        job.until("its seat", lambda: seat_of(seated.process) is not None)
        job.until_read()
        spare = job.container()
        job.until("it stands by", lambda: "standing by" in spare.process.stderr)

        name = dice.choice(sorted(leading))
        coordinator = leading[name].delete()
        leading[name] = cluster.start(COORDINATOR, name)
        job.until("it is ready", lambda: leading[name].is_ready)
        job.until("one leads", lambda: leads(cluster.urls(COORDINATOR)))
        job.until_read()

        container = seated.delete()
        job.until("its seat", lambda: seat_of(spare.process) is not None)
        job.until_read()
        third = job.container()
        job.until("it stands by", lambda: "standing by" in third.process.stderr)
        racks = {each.rack for each in job.client.status(JOB).containers if each.gone is None}
        assert racks <= set(ZONES), racks
        assert racks
        os.kill(spare.process.popen.pid, signal.SIGKILL)
        spare.process.wait()
        job.until("its seat", lambda: seat_of(third.process) is not None)
        job.until_read()

        job.flights = job.flights[: job.put]
        until_calm(job.client, JOB, workspace.whole_ends(INPUT), job.until)
        workspace.call("stop", JOB)
        assert third.process.wait() == 0, third.process.stderr
        workspace.check_outputs(job.flights)
        for pod in leading.values():
            pod.delete()
        job.client.close()
    return f"{name} ended in {coordinator:.1f} s, a container in {container:.1f} s; {job.put} records"


def leads(urls: str) -> bool:
    """Whether one of some coordinators leads."""
    with Client(urls, token=TOKEN) as client:
        try:
            client.holds_seat("whoever")
        except (*AWAY, NotFoundError):
            return False
        return True
