"""What the reads and plans of a coordinator cost: time, bytes, and how long they lock the jobs.

The coordinator runs in this process, on SQLite. The 100 containers are simulated, without Spark.
"""

from __future__ import annotations

import argparse
import gzip
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.interruption import interruptible

from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.store import Store
from anabranch.model.document import Document, compact
from anabranch.model.lane import Lane
from anabranch.planning import plan as planning
from anabranch.protocol.commands import AssignRequest, ScaleRequest
from anabranch.protocol.container import Heartbeat, Registration
from anabranch.protocol.deployment import Program, StartRequest
from anabranch.protocol.lane_report import LanePhase, LaneReport
from bench.coordinator import graph, planned

ALLOWED_HOLD_MS, ALLOWED_PLAN_MS = 50.0, 300.0
JOB, CONTAINERS = "load", 100
SHAPES = {"10,000 x 1": (10_000, 1), "625 x 16": (625, 16), "10 x 1,024": (10, 1024)}
EVENTS = 1000


class Holds:
    """Measures the longest time for which a thread holds the coordinator's lock, both in elapsed time and in CPU time
    of the thread.

    On a busy machine, the thread also waits for a core. Its CPU time shows how long the code itself needs the lock.
    """

    def __init__(self, coordinator: Coordinator) -> None:
        self.longest = self.longest_cpu = 0.0
        self._inside = threading.local()
        registry: Any = coordinator.registry
        for name in ("locked_all", "locked_as_seen"):
            setattr(registry, name, self._timed(getattr(registry, name)))

    def forget(self) -> None:
        self.longest = self.longest_cpu = 0.0

    def _timed(self, original: Callable[[], Any]) -> Callable[[], Any]:
        @contextmanager
        def timed() -> Iterator[Any]:
            with original() as found:
                if getattr(self._inside, "held", False):
                    yield found
                    return
                self._inside.held = True
                begun, cpu = time.perf_counter(), time.thread_time()
                try:
                    yield found
                finally:
                    self._inside.held = False
                    self.longest = max(self.longest, time.perf_counter() - begun)
                    self.longest_cpu = max(self.longest_cpu, time.thread_time() - cpu)

        return timed


def started(store: Store, partitions: int, factor: int, lanes: int = 1) -> Coordinator:
    """Start a coordinator whose job runs in all containers. Each container has ``lanes`` lanes, and each lane has a
    report with figures.
    """
    plan = planned(JOB, partitions, factor, CONTAINERS, lanes)
    its = planning.lanes_of(plan, 4, lambda: f"{random.getrandbits(32):08x}")
    program = Program(artifact="0" * 64, file="job.py", settings={}, schemas={})
    coordinator = Coordinator(store, grace=5.0, lease=600.0)
    coordinator.start(StartRequest(graph=graph(JOB), model=plan.model, lanes=its, fingerprint={}, program=program))
    for number in range(CONTAINERS):
        asked = Registration(job=JOB, execution=f"e{number}", host="here", pid=number + 1)
        me = coordinator.register(asked)
        beat = Heartbeat(container=me.container, epoch=me.epoch, number=0)
        its = coordinator.heartbeat(beat)
        reports = tuple(report(each.lane, me.epoch) for each in its.wanted)
        for beats in (1, 2):
            beat = Heartbeat(container=me.container, epoch=me.epoch, number=beats, seen=its.revision, lanes=reports)
            coordinator.heartbeat(beat)
    coordinator.tick()
    assert coordinator.status(JOB).state == "running", coordinator.status(JOB).state
    registry = coordinator.registry
    store.note(
        [registry.event("other", JOB, "coordinator", f"something happened {n}", "for a reason") for n in range(EVENTS)]
    )
    return coordinator


def report(lane: Lane, epoch: int) -> LaneReport:
    whole = sorted({str(each.whole) for each in lane.ssps})
    return LaneReport(
        lane=lane.id,
        phase=LanePhase.RUNNING,
    ).changed(
        folder_epoch=epoch,
        batch=7,
        begun=True,
        positions={name: 10_000_000 + place for place, name in enumerate(whole)},
        ends={name: 10_000_100 + 3 * place for place, name in enumerate(whole)},
        rows_per_second=100.0,
        arriving=90.0,
        busy=0.7,
        working=0.5,
        span=30.0,
        usual_seconds=0.4,
        first_output=1.0,
        last_output=2.0,
    )


def calls(coordinator: Coordinator) -> Iterable[tuple[str, Callable[[], Any]]]:
    """The calls to measure, with their names: reads, dry runs, and a tick."""
    factor = coordinator.status(JOB).factor
    other = factor * 2 if factor < 1024 else factor // 2
    yield "GET /jobs/J", lambda: coordinator.status(JOB)
    yield "GET /jobs/J/model", lambda: coordinator.model(JOB)
    yield "GET /jobs/J/events", lambda: coordinator.events(JOB, EVENTS)
    yield "GET /jobs/J/sizing", lambda: coordinator.sizing(JOB)
    yield "GET /jobs/J/sizing again", lambda: coordinator.sizing(JOB)
    yield "GET /jobs/J/assignment", lambda: coordinator.assignment(JOB)
    yield "scale, another factor", lambda: coordinator.scale(JOB, ScaleRequest(factor=other, dry=True))
    yield "scale, 50 containers", lambda: coordinator.scale(JOB, ScaleRequest(containers=50, dry=True))
    yield "assign", lambda: coordinator.assign(JOB, AssignRequest(dry=True))
    yield "a tick", coordinator.tick
    yield "GET /overview", coordinator.overview
    yield "GET /jobs/J/live", lambda: coordinator.live(JOB)
    yield "GET /jobs/J/findings", lambda: coordinator.findings(JOB)
    yield "GET /jobs/J/partitions", lambda: coordinator.partitions(JOB)
    yield "GET /jobs/J/placement", lambda: coordinator.placement(JOB)
    yield "GET /jobs/J/graph", lambda: coordinator.graph(JOB)
    brief = ScaleRequest(factor=other, dry=True, brief=True)
    yield "scale, another factor, brief", lambda: coordinator.scale(JOB, brief)


def size(answer: Any) -> tuple[int, int]:
    if answer is None:
        return 0, 0
    parts = answer if isinstance(answer, list) else [answer]
    raw = b",".join(compact(each) if isinstance(each, Document) else bytes(each) for each in parts)
    return len(raw), len(gzip.compress(raw, 1))


def holds(shapes: Iterable[str]) -> bool:
    """Measure the calls, and print a table for each shape. Returns whether no call held the lock for too long."""
    fine = True
    for shape in shapes:
        partitions, factor = SHAPES[shape]
        with tempfile.TemporaryDirectory(prefix="anabranch-bench-") as place:
            store = Store(f"sqlite:///{Path(place) / 'store.db'}")
            coordinator = started(store, partitions, factor)
            print(f"{shape}: {partitions * factor:,} tasks in {CONTAINERS} containers", flush=True)
            watch = Holds(coordinator)
            print(f"{'':28} {'ms':>8} {'CPU ms':>8} {'hold ms':>9} {'hold CPU':>9} {'bytes':>11} {'gzip':>9}")
            for name, call in calls(coordinator):
                watch.forget()
                begun, cpu = time.perf_counter(), time.thread_time()
                answer = call()
                took, used = 1000 * (time.perf_counter() - begun), 1000 * (time.thread_time() - cpu)
                held, held_cpu = 1000 * watch.longest, 1000 * watch.longest_cpu
                raw, packed = size(answer)
                mark = "  too long" if held_cpu > ALLOWED_HOLD_MS else ""
                fine = fine and not mark
                figures = f"{took:8,.1f} {used:8,.1f} {held:9,.1f} {held_cpu:9,.1f} {raw:11,} {packed:9,}"
                print(f"{name:28} {figures}{mark}", flush=True)
            store.close()
    print(f"allowed: {ALLOWED_HOLD_MS:.0f} ms (of CPU) for a hold; {ALLOWED_PLAN_MS:.0f} ms or near for a plan")
    return fine


def main() -> None:
    interruptible()
    words = argparse.ArgumentParser(prog="scripts/bench reads", description=__doc__)
    words.add_argument("--shapes", type=lambda text: text.split(";"), default=list(SHAPES))
    given = words.parse_args()
    if not holds(given.shapes):
        sys.exit(1)


if __name__ == "__main__":
    main()
