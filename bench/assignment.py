"""Benchmarks of the rack-aware assignment.

The command compares our solver with cycle cancelling as KIP-925 describes it, and with a minimum-cost flow in a network
that has an arc from each task to each container. It measures our solver on a problem of the size of a large job. It
also compares how many partitions the KIP's plans and our plans read across racks.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
from tests.support.interruption import interruptible

from anabranch.planning.assignment.racks.problem import Container, Partition, Problem, Task
from anabranch.planning.assignment.racks.solver import solve
from bench.support import kip

ALLOWED_S, ALLOWED_MB = 2.0, 700.0
SCENARIOS = ((60, 9, 3, 1), (60, 9, 3, 2), (61, 8, 4, 1), (100, 12, 5, 2), (125, 20, 9, 2))
"""Tasks, containers, racks, and replicas of each partition."""
MEASURED = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
"""
"""Runs a command, and prints the peak of the command's memory in KB to stderr. This code is run in a small process of
its own, because the peak of a child process includes the memory of the process that starts it.
"""
PARTS = ("cycles", "dense", "standbys", "large", "plans")


def problem(tasks: int, containers: int, racks: int, *, seed: int = 1, replicas: int = 2, **rules: object) -> Problem:
    """Make a problem in which each task reads two inputs and a changelog, one partition of each. Each partition has
    replicas in ``replicas`` racks. Containers are assigned to the racks in turn. With ``home``, each task is
    already running in a random container.
    """
    rng = random.Random(seed)
    names = [f"r{number}" for number in range(racks)]
    home = bool(rules.pop("home", False))
    made = tuple(Container(id=f"c{number:04}", rack=names[number % racks], slots=4) for number in range(containers))

    def partition(stream: str, number: int) -> Partition:
        return Partition(stream=stream, partition=number, racks=tuple(rng.sample(names, replicas)))

    return Problem(
        containers=made,
        tasks=tuple(
            Task(
                name=f"Partition_{number:05}",
                stateful=True,
                partitions=(partition("flights", number), partition("weather", number)),
                state_partitions=(partition("changes", number),),
                on=rng.choice(made).id if home else None,
            )
            for number in range(tasks)
        ),
        **rules,  # type: ignore[arg-type]
    )


def costs(asked: Problem, *, standby: bool = False) -> kip.Whole:
    """How many partitions each container would read across racks for each task, as an array (task, container). With
    ``standby``, these are the partitions that a standby of the task would read.
    """
    rack = np.array([one.rack for one in asked.containers])
    found = np.zeros((len(asked.tasks), len(rack)), np.int64)
    for number, task in enumerate(asked.tasks):
        for one in task.state_partitions if standby else task.partitions:
            found[number] += ~np.isin(rack, one.racks)
    return found


def timed(run: Callable[[], object], times: int) -> float:
    """The median duration of ``times`` calls, in seconds."""
    found = []
    for _ in range(times):
        begun = time.perf_counter()
        run()
        found.append(time.perf_counter() - begun)
    return statistics.median(found)


def told(what: str, value: str, allowed: str, kept: bool) -> None:
    print(f"{what:68} {value:>12}   {allowed:>14}  {'kept' if kept else 'MISSED'}", flush=True)


def cycles() -> None:
    """Compare our solver with cycle cancelling. Each container gets the number of tasks that the KIP gives it, so both
    must find the same least cost.
    """
    asked = problem(300, 20, 9, loads="fixed")
    cost = costs(asked)
    solve(asked)
    ours = timed(lambda: solve(asked), 25)
    begun = time.perf_counter()
    at = kip.actives(cost)
    theirs = time.perf_counter() - begun
    answer = solve(asked)
    least = int(cost[np.arange(len(at)), at].sum())
    assert least == answer.traffic, f"{least} across racks by cycle cancelling, {answer.traffic} by ours"
    print(f"300 x 20 x 9: cycle cancelling {theirs:.2f} s, ours {1000 * ours:.1f} ms; both {least} across racks")
    told("times faster than cycle cancelling, 300 x 20 x 9", f"{theirs / ours:,.0f}", "100", theirs >= 100 * ours)


def dense() -> None:
    from ortools.graph.python import min_cost_flow

    asked = problem(10_000, 500, 9)
    tasks, containers = len(asked.tasks), len(asked.containers)
    cost = costs(asked)
    low = tasks // containers

    def whole() -> int:
        solver = min_cost_flow.SimpleMinCostFlow()
        task, container = np.divmod(np.arange(tasks * containers), containers)
        solver.add_arcs_with_capacity_and_unit_cost(task, tasks + container, np.ones_like(task), cost.ravel())
        rest = tasks + containers
        each = np.arange(tasks, rest)
        solver.add_arcs_with_capacity_and_unit_cost(each, np.full_like(each, rest), np.ones_like(each), 0 * each)
        solver.set_nodes_supplies(np.arange(tasks), np.ones(tasks, np.int64))
        solver.set_nodes_supplies(each, np.full(containers, -low))
        solver.set_nodes_supplies(np.array([rest]), np.array([low * containers - tasks]))
        assert solver.solve() == solver.OPTIMAL
        return int(solver.optimal_cost())

    solve(problem(10, 5, 3))
    ours = timed(lambda: solve(asked), 3)
    begun = time.perf_counter()
    least = whole()
    theirs = time.perf_counter() - begun
    answer = solve(asked)
    assert least == answer.traffic, f"{least} across racks by the dense flow, {answer.traffic} by ours"
    print(f"10,000 x 500 x 9: dense flow {theirs:.2f} s, ours {ours:.2f} s; both {least} across racks")
    told("share of a dense flow's time, 10,000 x 500 x 9", f"{ours / theirs:.3f}", "0.1", ours <= 0.1 * theirs)


def standbys() -> None:
    asked = problem(10_000, 500, 9)
    both = msgspec.structs.replace(asked, standbys=2)
    solve(problem(10, 5, 3, standbys=2))
    alone, together = timed(lambda: solve(asked), 3), timed(lambda: solve(both), 3)
    answer = solve(both)
    assert (answer.gap, answer.spread) == (0, 3 * len(asked.tasks))
    ratio = (together - alone) / alone
    print(f"10,000 x 500 x 9: actives {alone:.2f} s, with 2 standbys each, in 3 racks, {together:.2f} s")
    told("standbys' time to that of actives, 10,000 x 500 x 9", f"{ratio:.2f}", "4", ratio <= 4)


def large(anabranch: str) -> None:
    """Measure ``anabranch assign solve``, in a process of its own, for a problem in which all tasks are running."""
    asked = problem(50_000, 1_000, 9, home=True)
    with tempfile.TemporaryDirectory(prefix="anabranch-bench-") as place:
        file = Path(place) / "problem.json"
        file.write_bytes(msgspec.json.encode(asked))
        size = file.stat().st_size / 2**20
        begun = time.perf_counter()
        command = [sys.executable, "-c", MEASURED, anabranch, "assign", "solve", str(file), "--json"]
        done = subprocess.run(command, check=True, capture_output=True)
        took = time.perf_counter() - begun
    answer = json.loads(done.stdout)
    peak = int(done.stderr) / 1024
    print(f"50,000 x 1,000 x 9: {took:.2f} s for the command, with {size:.0f} MB of JSON to read; gap {answer['gap']}")
    seconds = answer["seconds"]
    told("seconds to solve 50,000 x 1,000 x 9", f"{seconds:.2f}", f"{ALLOWED_S:g}", seconds <= ALLOWED_S)
    told("MB of the whole command", f"{peak:.0f}", f"{ALLOWED_MB:g}", peak <= ALLOWED_MB)


def plans(seeds: int) -> None:
    """Compare plans that have one standby for each task, in another rack. The KIP's plans, unlike ours, don't have to
    balance the standbys. ``off`` shows how unbalanced they are: the total number of standbys by which the KIP's
    containers fall short of the floor of the mean, or exceed its ceiling.
    """
    heads = f"{'KIP':>7} {'off':>5} {'sequential':>11} {'joint':>7} {'bound':>7}"
    print(f"{'tasks x containers x racks, replicas':40} {heads}")
    worse = 0
    for tasks, containers, racks, replicas in SCENARIOS:
        sums = np.zeros(5)
        for seed in range(seeds):
            asked = problem(tasks, containers, racks, seed=seed, replicas=replicas, standbys=1)
            rack = np.array([int((one.rack or "")[1:]) for one in asked.containers])
            cost, feeds = costs(asked), costs(asked, standby=True)
            at = kip.actives(cost)
            copies = np.array(kip.standbys(feeds, at, rack, 1))
            theirs = int(np.take_along_axis(cost, at[:, None], 1).sum() + np.take_along_axis(feeds, copies, 1).sum())
            load = np.bincount(copies.ravel(), minlength=containers)
            low = tasks // containers
            off = int((np.maximum(low - load, 0) + np.maximum(load - -(-tasks // containers), 0)).sum())
            apart = solve(asked).traffic
            joint = solve(msgspec.structs.replace(asked, mode="joint"))
            bound = -(-joint.lower_bound // asked.traffic_cost)
            assert joint.traffic is not None
            assert apart is not None
            worse += not bound <= joint.traffic <= (apart if off else min(apart, theirs))
            sums += (theirs, off, apart, joint.traffic, bound)
        means = sums / seeds
        name = f"{tasks} x {containers} x {racks}, {replicas}"
        print(f"{name:40} {means[0]:7.1f} {means[1]:5.1f} {means[2]:11.1f} {means[3]:7.1f} {means[4]:7.1f}", flush=True)
    told(f"of {len(SCENARIOS) * seeds}, those whose joint plan isn't the best", str(worse), "0", worse == 0)


def main() -> None:
    interruptible()
    words = argparse.ArgumentParser(prog="scripts/bench assignment", description=__doc__)
    words.add_argument("--only", default=",".join(PARTS), help=f"of {','.join(PARTS)}")
    words.add_argument("--seeds", type=int, default=10, help="of each kind of scenario in plans (default: 10)")
    words.add_argument("--anabranch", default="anabranch", help="the command to measure")
    given = words.parse_args()
    if unknown := set(re.split(",", given.only)) - set(PARTS):
        words.error(f"there is no {', '.join(sorted(unknown))}")
    runs: dict[str, Callable[[], None]] = {
        "cycles": cycles,
        "dense": dense,
        "standbys": standbys,
        "large": lambda: large(given.anabranch),
        "plans": lambda: plans(given.seeds),
    }
    for part in PARTS:
        if part in given.only.split(","):
            runs[part]()


if __name__ == "__main__":
    sys.exit(main())
