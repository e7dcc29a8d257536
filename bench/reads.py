"""What the reads and plans of a coordinator cost: time, bytes, and how long they keep others from the jobs.

The coordinator is in this process, on SQLite; 100 containers are played, without Spark. While a call is measured
another thread takes the coordinator's lock again and again: the longest that it waits is the longest hold of the lock,
with what the interpreter's switching between threads adds. ``--only beats`` measures heartbeats over HTTP instead, with
and without pages that read.
"""

from __future__ import annotations

import argparse
import gzip
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.store import Store
from anabranch.model.document import Document, compact
from anabranch.model.lane import Lane
from anabranch.planning import plan as planning
from anabranch.protocol.commands import AssignRequest, ScaleRequest
from anabranch.protocol.container import Heartbeat, Registration
from anabranch.protocol.deployment import Program, StartRequest
from anabranch.protocol.lane_report import LaneReport
from bench.coordinator import graph, planned

ALLOWED_HOLD_MS, ALLOWED_PLAN_MS = 50.0, 300.0
JOB, CONTAINERS = "load", 100
SHAPES = {"10,000 x 1": (10_000, 1), "625 x 16": (625, 16), "10 x 1,024": (10, 1024)}
EVENTS = 1000


class Probe:
    """A thread that takes the lock all the time, as a beat with news does, and remembers its longest wait."""

    def __init__(self, coordinator: Coordinator) -> None:
        self.longest = 0.0
        self._registry = coordinator.registry
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Probe:
        self._thread.start()
        time.sleep(0.02)
        self.longest = 0.0
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.is_set():
            begun = time.perf_counter()
            with self._registry.locked_as_seen():
                self.longest = max(self.longest, time.perf_counter() - begun)
            time.sleep(0.001)


def started(store: Store, partitions: int, factor: int) -> Coordinator:
    """A coordinator whose job runs in all containers, each lane with figures."""
    plan = planned(JOB, partitions, factor, CONTAINERS)
    lanes = planning.lanes_of(plan, 4, lambda: f"{random.getrandbits(32):08x}")
    program = Program(artifact="0" * 64, file="job.py", settings={}, schemas={})
    coordinator = Coordinator(store, grace=5.0, lease=600.0)
    coordinator.start(StartRequest(graph=graph(JOB), model=plan.model, lanes=lanes, fingerprint={}, program=program))
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
    store.note([registry.event(JOB, "coordinator", f"something happened {n}", "for a reason") for n in range(EVENTS)])
    return coordinator


def report(lane: Lane, epoch: int) -> LaneReport:
    whole = sorted({str(each.whole) for each in lane.ssps})
    return LaneReport(
        lane=lane.id,
        phase="running",
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
        changeover=0.3,
        first_output=1.0,
        last_output=2.0,
    )


def calls(coordinator: Coordinator) -> Iterable[tuple[str, Callable[[], Any]]]:
    """The reads and dry runs that there are, by name."""
    factor = coordinator.status(JOB).factor
    yield "GET /jobs/J", lambda: coordinator.status(JOB)
    yield "GET /jobs/J/model", lambda: coordinator.model(JOB)
    yield "GET /jobs/J/lanes", lambda: list(coordinator.known_lanes(JOB).values())
    yield "GET /jobs/J/events", lambda: coordinator.events(JOB, EVENTS)
    yield "GET /jobs/J/sizing", lambda: coordinator.sizing(JOB)
    yield "GET /jobs/J/sizing again", lambda: coordinator.sizing(JOB)
    yield "GET /jobs/J/assignment", lambda: coordinator.assignment(JOB)
    other = factor * 2 if factor < 1024 else factor // 2
    yield "scale, another factor", lambda: coordinator.scale(JOB, ScaleRequest(factor=other, dry=True))
    yield "scale, 50 containers", lambda: coordinator.scale(JOB, ScaleRequest(containers=50, dry=True, request="r1"))
    yield "assign", lambda: coordinator.assign(JOB, AssignRequest(dry=True))
    yield "a tick", coordinator.tick


def size(answer: Any) -> tuple[int, int]:
    if answer is None:
        return 0, 0
    parts = answer if isinstance(answer, list) else [answer]
    raw = b",".join(compact(each) if isinstance(each, Document) else bytes(each) for each in parts)
    return len(raw), len(gzip.compress(raw, 1))


def holds(shapes: Iterable[str]) -> bool:
    """Print a table for each shape; gives whether all is as it should be."""
    fine = True
    for shape in shapes:
        partitions, factor = SHAPES[shape]
        with tempfile.TemporaryDirectory(prefix="anabranch-bench-") as place:
            store = Store(f"sqlite:///{Path(place) / 'store.db'}")
            coordinator = started(store, partitions, factor)
            print(f"{shape}: {partitions * factor:,} tasks in {CONTAINERS} containers", flush=True)
            print(f"{'':28} {'ms':>8} {'longest hold ms':>16} {'bytes':>11} {'gzip':>10}")
            for name, call in calls(coordinator):
                with Probe(coordinator) as probe:
                    begun = time.perf_counter()
                    answer = call()
                    took = 1000 * (time.perf_counter() - begun)
                    held = 1000 * probe.longest
                raw, packed = size(answer)
                mark = "  too long" if held > ALLOWED_HOLD_MS else ""
                fine = fine and not mark
                print(f"{name:28} {took:8,.1f} {held:16,.1f} {raw:11,} {packed:10,}{mark}", flush=True)
            store.close()
    print(f"allowed: {ALLOWED_HOLD_MS:.0f} ms for a hold; {ALLOWED_PLAN_MS:.0f} ms or near for a plan")
    return fine


def main() -> None:
    words = argparse.ArgumentParser(prog="scripts/bench reads", description=__doc__)
    words.add_argument("--shapes", type=lambda text: text.split(";"), default=list(SHAPES))
    given = words.parse_args()
    if not holds(given.shapes):
        sys.exit(1)


if __name__ == "__main__":
    main()
