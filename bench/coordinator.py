"""A coordinator under load, and a job model of 1,000,000 SSPs with buckets.

The load is 1,000 containers, each of which sends a heartbeat with 1,000 positions every 2 s. The coordinator is
``anabranch coordinator`` on a core of its own; PostgreSQL and the simulated containers share another core.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import math
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from tests.support import postgres
from tests.support.interruption import interruptible

from anabranch import Job
from anabranch.coordinator.api.client import Client
from anabranch.errors import NotLeadingError
from anabranch.grouping import groupers
from anabranch.model.document import compact, decode, encode
from anabranch.model.graph import Graph
from anabranch.model.job_model import JobModel
from anabranch.planning import plan as planning
from anabranch.protocol.container import HeartbeatResponse, Registration, RegistrationResponse
from anabranch.protocol.deployment import Program, StartRequest
from bench.support import processes
from bench.support.beating import TOKEN, Connection, Container, positions
from bench.support.processes import Side

ALLOWED_MS, ALLOWED_S, ALLOWED_MB = 50.0, 5.0, 1000.0
PERIOD = 2.0
PARTITIONS, FACTOR = 15_625, 64
_SSPS = 10
"""How many SSPs each container has in the plan. Its heartbeats contain the positions of more SSPs than that."""
_URL = re.compile(r"coordinator at (http://\S+?),")
_MADE = "anabranch-bench-model"


def graph(name: str) -> Graph:
    job = Job(name)
    job.read("records", key="id string", schema="n int").where("n > 0").write("chosen")
    return job.graph


def planned(name: str, partitions: int, factor: int, containers: int, lanes: int = 1) -> planning.Plan:
    return planning.make(
        graph(name),
        planning.Surroundings(
            factor=factor,
            containers=containers,
            grouper_name="partition",
            grouper=groupers.named("partition"),
            partitions={"records": partitions},
            systems={"records": "kafka", "chosen": "kafka"},
            lanes=lanes,
        ),
    )


def start_of(name: str, containers: int) -> StartRequest:
    plan = planned(name, containers * _SSPS, 1, containers)
    lanes = planning.lanes_of(plan, 4, lambda: f"{random.getrandbits(32):08x}")
    program = Program(artifact="0" * 64, file="job.py", settings={}, schemas={})
    return StartRequest(graph=graph(name), model=plan.model, lanes=lanes, fingerprint={}, program=program)


# Heartbeats


@dataclass
class Figures:
    """The figures of one measurement.

    Attributes:
        latencies: the latencies of heartbeats, in ms.
        coordinator: the share of a core that the coordinator used.
        driver: the share of a core that the simulated containers used.
        memory: the coordinator's memory, in MB.
    """

    name: str
    latencies: list[float]
    coordinator: float
    driver: float
    memory: int

    def at(self, share: float) -> float:
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, math.ceil(len(ordered) * share) - 1)] if ordered else math.nan

    def told(self) -> str:
        return (
            f"{self.name:28} {len(self.latencies):7,} {self.at(0.5):7.1f} {self.at(0.99):7.1f} "
            f"{max(self.latencies, default=math.nan):7.1f} {self.coordinator:10.0%} {self.driver:7.0%} {self.memory:7,}"
        )


HEAD = f"{'':28} {'beats':>7} {'p50 ms':>7} {'p99 ms':>7} {'max ms':>7} {'coordinator':>10} {'driver':>7} {'MB':>7}"


class Load:
    """The simulated containers of one coordinator. Made by :func:`loaded`."""

    def __init__(self, side: Side, containers: list[Container], seconds: float) -> None:
        self._side = side
        self._containers = containers
        self._seconds = seconds

    async def measured(self, name: str, run: Callable[[list[float], float], Awaitable[None]]) -> Figures:
        latencies: list[float] = []
        begun, cpu, own = time.perf_counter(), self._side.cpu_seconds(), time.process_time()
        await run(latencies, begun + self._seconds)
        took = time.perf_counter() - begun
        its, ours = (self._side.cpu_seconds() - cpu) / took, (time.process_time() - own) / took
        return Figures(name, [1000 * each for each in latencies], its, ours, self._side.resident_mb())

    async def at_once(self, latencies: list[float], end: float) -> None:
        """For each container, a heartbeat is due every 2 s, independently of the other containers. If the previous
        answer is late, the heartbeat is sent late, but its latency is still measured from the time when it was due.
        """
        count = len(self._containers)

        async def beats(place: int, container: Container) -> None:
            due = time.perf_counter() + place * PERIOD / count
            while due < end:
                await asyncio.sleep(due - time.perf_counter())
                await container.beat(0.0)
                latencies.append(time.perf_counter() - due)
                due += PERIOD

        await asyncio.gather(*(beats(place, each) for place, each in enumerate(self._containers)))

    async def polls(self, latencies: list[float], end: float) -> None:
        """Each heartbeat is a long poll that waits for 1.5 to 2 s, as those of real containers do. All containers wait
        at the same time.
        """
        count = len(self._containers)

        async def polls(place: int, container: Container) -> None:
            await asyncio.sleep(place * PERIOD / count)
            while time.perf_counter() < end:
                latencies.append(await container.beat(PERIOD * random.uniform(0.75, 1.0)))

        await asyncio.gather(*(polls(place, each) for place, each in enumerate(self._containers)))

    def news(self, rate: float, told: list[float]) -> Callable[[list[float], float], Awaitable[None]]:
        """Like ``polls``, with ``rate`` additional heartbeats per second that contain something that the coordinator
        stores. The latencies of these heartbeats are added to ``told``.
        """

        async def tells(end: float) -> None:
            due = time.perf_counter()
            while due < end:
                await asyncio.sleep(due - time.perf_counter())
                told.append(1000 * await random.choice(self._containers).tell())
                due += 1 / rate

        async def run(latencies: list[float], end: float) -> None:
            await asyncio.gather(self.polls(latencies, end), tells(end))

        return run


async def loaded(side: Side, url: str, jobs: list[str], each: int, count: int, seconds: float, news: float) -> None:
    loop = asyncio.get_running_loop()
    host, port = url.removeprefix("http://").split(":")

    async def connected() -> Connection:
        return (await loop.create_connection(Connection, host, int(port)))[1]

    at, containers = positions(count), list[Container]()
    begun = time.perf_counter()
    many = asyncio.Semaphore(20)

    async def joined(job: str, number: int) -> Container:
        async with many:
            connection, tells = await connected(), await connected()
            asked = Registration(job=job, execution=f"{job}-{number}", host="here", pid=number + 1)
            me = decode(await connection.ask("/containers", compact(asked)), RegistrationResponse)
            body = b'{"container":"%b","epoch":%d,"number":0}' % (me.container.encode(), me.epoch)
            answer = decode(await connection.ask(f"/containers/{me.container}/heartbeat", body), HeartbeatResponse)
            return Container(me.container, me.epoch, connection, tells, answer.wanted[0].lane.id, at)

    async def seated(job: str, number: int) -> None:
        container = await joined(job, number)
        await container.beat(0.0)
        containers.append(container)
        while len(containers) < len(jobs) * each:  # heartbeats keep its seat until all containers have joined
            await container.beat(PERIOD)

    await asyncio.gather(*(seated(job, number) for job in jobs for number in range(each)))
    print(f"{len(containers):,} containers run after {time.perf_counter() - begun:.1f} s", flush=True)
    random.shuffle(containers)
    gc.collect()
    gc.disable()  # pauses of the simulated containers must not count as the coordinator's
    load = Load(side, containers, seconds)
    print(HEAD, flush=True)
    for name, run in (("beats that don't wait", load.at_once), ("polls, without their wait", load.polls)):
        print((await load.measured(name, run)).told(), flush=True)
    told: list[float] = []
    both = await load.measured(f"the same, and {news:g} news a second", load.news(news, told))
    print(both.told(), flush=True)
    print(
        Figures("  those news, which are stored", told, both.coordinator, both.driver, both.memory).told(), flush=True
    )


def beats(given: argparse.Namespace) -> None:
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise SystemExit("the coordinator and its containers need a core each")
    os.sched_setaffinity(0, cores[1:2])
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    for count in given.jobs:
        each = given.containers // count
        print(f"{count} job(s) of {each} containers, {given.positions:,} positions each", flush=True)
        with (
            postgres.serving() as server,
            tempfile.TemporaryDirectory(prefix="anabranch-bench-") as place,
            processes.side(Path(place) / "coordinator") as side,
        ):
            command = ["taskset", "-c", str(cores[0]), given.anabranch, "coordinator", "--port", "0"]
            settings = {"STORE": server.new_database(), "TOKEN": TOKEN}
            side.start(command, {f"ANABRANCH__COORDINATOR__{name}": value for name, value in settings.items()})
            url = _listening(side)
            jobs = [f"job{number}" for number in range(count)]
            with Client(url, timeout=60.0, token=TOKEN) as client:
                for job in jobs:
                    _start(client, start_of(job, each))
            asyncio.run(loaded(side, url, jobs, each, given.positions, given.seconds, given.news))


def _start(client: Client, start: StartRequest) -> None:
    end = time.monotonic() + processes.PATIENCE
    while True:
        try:
            client.start(start)
            return
        except NotLeadingError:  # the coordinator will lead in a moment
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def _listening(side: Side) -> str:
    end = time.monotonic() + processes.PATIENCE
    while True:
        side.check()
        found = _URL.search(side.log.read_text())
        if found:
            return found[1]
        if time.monotonic() > end:
            raise SystemExit(f"the coordinator doesn't listen:\n{side.said()}")
        time.sleep(0.05)


# The job model


def model(given: argparse.Namespace) -> None:
    """Build the job model for several numbers of containers, each in a process of its own, because the memory that is
    printed is the peak of the process.
    """
    print(f"a job model of {PARTITIONS:,} partitions and factor {FACTOR}: {PARTITIONS * FACTOR:,} SSPs")
    print(f"{'containers':>10} {'plan s':>7} {'lanes s':>8} {'peak MB':>8} {'JSON MB':>8} {'write s':>8} {'read s':>7}")
    for containers in (1, 100, 1000):
        again = [sys.executable, "-m", "bench.coordinator", "--build", str(containers)]
        print(subprocess.run(again, check=True, capture_output=True, text=True).stdout.rstrip(), flush=True)
    print(f"allowed: {ALLOWED_S:.0f} s and {ALLOWED_MB:,.0f} MB")


def build(containers: int) -> None:
    begun = time.perf_counter()
    plan = planned("load", PARTITIONS, FACTOR, containers)
    made = time.perf_counter()
    lanes = planning.lanes_of(plan, 4, lambda: f"{random.getrandbits(32):08x}")
    cut = time.perf_counter()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    assert sum(len(task.ssps) for stage in plan.model.stages for task in stage.tasks) == PARTITIONS * FACTOR
    assert len(lanes) == containers
    written = time.perf_counter()
    raw = encode(plan.model)
    read = time.perf_counter()
    again = decode(raw, JobModel)
    end = time.perf_counter()
    assert again == plan.model
    print(
        f"{containers:10,} {made - begun:7.1f} {cut - made:8.1f} {peak:8,.0f} {len(raw) / 1e6:8,.0f} "
        f"{read - written:8.1f} {end - read:7.1f}"
    )


def main() -> None:
    words = argparse.ArgumentParser(prog="scripts/bench coordinator", description=__doc__)
    words.add_argument("--only", choices=("beats", "model"))
    words.add_argument("--seconds", type=float, default=30.0, help="of each measurement (default: 30)")
    words.add_argument("--containers", type=int, default=1000)
    words.add_argument("--positions", type=int, default=1000, help="of each container (default: 1000)")
    words.add_argument("--jobs", type=_numbers, default=[1, 100], help="so many share the containers (default: 1,100)")
    words.add_argument("--news", type=float, default=10.0, help="beats a second that are stored (default: 10)")
    words.add_argument("--anabranch", default="anabranch", help="the command to measure")
    words.add_argument("--build", type=int, help=argparse.SUPPRESS)
    given = words.parse_args()
    if given.build is not None:
        build(given.build)
        return
    interruptible()
    with processes.explained():
        if given.only != "model":
            beats(given)
            print(f"allowed: p99 of {ALLOWED_MS:.0f} ms for a beat that changes nothing", flush=True)
        if given.only != "beats":
            model(given)


def _numbers(text: str) -> list[int]:
    return [int(each) for each in text.split(",")]


if __name__ == "__main__":
    main()
