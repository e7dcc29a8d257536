"""What ``scale`` and ``autoscale`` do about a backlog behind a slow function, and how long this takes.

When a job starts, 60,000 records (``--records``) are waiting in 2 partitions. Each record takes 2 ms (``--wait``).
Three jobs clear this backlog, one after another:

- ``once`` has factor 16 from the start.
- ``scaled`` begins with factor 1. Five seconds after its lanes have begun to run, it is scaled to factor 16.
- ``auto`` begins with factor 1, and has an autosizer. No user changes it.

The *clearing* of a job is the time from when its lanes are running until all records are processed. For ``scaled``,
this time includes the five seconds before the call, so the command also prints what the ratio to ``once`` would be if
the change took no time. The *switch* is the time from the call of ``scale`` until the new lanes are running, including
the start of the verb itself. The output is compared with the input: it must contain each record once, and the records
of a key in order.

Other sides (``--sides``) run the job with factor 1:

- ``stop``, ``interrupt`` (Ctrl-C) and ``drain`` are called five seconds after the lanes have begun to run, and
  measured until the job's processes have ended.
- ``deploy`` is called at the same moment, on a coordinator that starts containers. The result is how long output
  pauses.
- ``watched`` processes all records in one batch. It measures how soon ``status`` has a figure after the function gets
  its first record, and how old figures get.
- ``remaining`` lets batches take 30 s, and drains the job during such a batch. Ten times a second, it compares the time
  left that ``drain`` shows with the time that the drain actually still took. ``remaining-latest`` does the same with
  ``--up-to latest``.
- ``minute`` prints how many records per second were processed in the first minute. It fails if a lane needs another
  attempt.

``--work`` selects the job: ``map`` has only the function; ``process`` has, instead of the function, a processor that
waits and has state; ``windows`` counts the function's results in windows of event time; ``plain`` writes the function's
results at least once.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from tests.support.interruption import interruptible

from bench.support import cluster as clusters
from bench.support.backlog_runs import (
    AUTO,
    BEFORE,
    CALLED,
    LOOK,
    MINUTE,
    ONCE,
    REMAINING,
    SCALED,
    WATCHED,
    Found,
    running,
)
from bench.support.backlogs import PARTITIONS, WORKS, Backlog
from bench.support.cluster import Cluster
from bench.support.processes import EndedError, explained

RECORDS, WAIT_MS = 60_000, 2.0
SIDES = {
    "once": ONCE,
    "scaled": SCALED,
    "auto": AUTO,
    "watched": WATCHED,
    "minute": MINUTE,
    "remaining": f"{REMAINING} planned",
    "remaining-latest": f"{REMAINING} latest",
    **{each: each for each in CALLED},
}
SWITCH_GOAL, CLEARING_GOAL, AUTO_GOAL = 3.0, 1.25, 1.6
NEAR, NEAR_SECONDS = 0.3, 0.5
CALL_GOAL, FIRST_GOAL, AGE_GOAL = 5.0, 3.0, 2.0


def measured(backlog: Backlog, kind: str, folder: Path, cluster: Cluster | None) -> Found:
    with running(backlog, folder, cluster) as run:
        if cluster is not None:
            for stream in run.system.streams():
                if stream in ("in", "out"):
                    cluster.delete(stream)
        deadline = time.monotonic() + 60
        while cluster is not None and {"in", "out"} & set(run.system.streams()) and time.monotonic() < deadline:
            time.sleep(LOOK)
        backlog.fill(run.system)
        found = run.measured(kind)
    if kind in CALLED:
        whole = f", {found.whole:.1f} s in all" if kind == "deploy" else ""
        print(f"{kind}: {found.called:.2f} s{whole}", flush=True)
        return found
    if kind == MINUTE:
        return found
    if kind.startswith(REMAINING):
        near = [abs(said - took) <= max(NEAR * took, NEAR_SECONDS) for said, took in found.remaining]
        looks = ", ".join(f"{said:.1f} of {took:.1f}" for said, took in found.remaining[:: max(1, len(near) // 8)])
        print(f"{kind}: {found.whole:.1f} s; {sum(near)} of {len(near)} looks were near; said, of: {looks}", flush=True)
        return found
    if kind == WATCHED:
        print(f"{kind}: first figure after {found.figure:.2f} s, never older than {found.age:.2f} s", flush=True)
        return found
    extra = f", switch {found.switch:.2f} s (planned pause {found.planned:.2f})" if kind == SCALED else ""
    since = f", {found.since:.1f} s since the call" if kind == SCALED else ""
    history = ", ".join(f"{factor} at {at:.1f} s" for at, factor in found.factors)
    print(
        f"{kind}: began {found.began:.1f} s, first figure after {found.first:.1f} s, cleared in "
        f"{found.clearing:.1f} s{since}{extra}; factors: {history}",
        flush=True,
    )
    return found


def judge(what: str, value: float, goal: float) -> None:
    print(f"{what}: {value:.2f}, goal {goal:g}: {'met' if value <= goal else 'missed'}", flush=True)


def summary(name: str, backlog: Backlog, found: dict[str, list[Found]]) -> None:
    def median(kind: str, of: Callable[[Found], float]) -> float:
        return statistics.median(map(of, found[kind]))

    for kind in CALLED:
        if kind in found:
            judge(f"{name}: seconds from {kind} until its promise holds", median(kind, lambda e: e.called), CALL_GOAL)
    if WATCHED in found:
        figure, age = median(WATCHED, lambda each: each.figure), median(WATCHED, lambda each: each.age)
        judge(f"{name}: seconds from the first record to the first figure", figure, FIRST_GOAL)
        judge(f"{name}: seconds that figures are old at most", age, AGE_GOAL)
    for kind, several in found.items():
        if kind in (*CALLED, WATCHED, MINUTE) or kind.startswith(REMAINING):
            continue
        began = median(kind, lambda each: each.began)
        print(
            f"{name}, {kind}: cleared in {median(kind, lambda each: each.clearing):.1f} s, median of {len(several)}; "
            f"{began:.1f} s before its lanes ran"
        )
    if SCALED in found:
        judge(f"{name}: seconds from the call until the new lanes run", median(SCALED, lambda e: e.switch), SWITCH_GOAL)
    if ONCE not in found:
        return
    once, clearing = median(ONCE, lambda e: e.began + e.clearing), median(ONCE, lambda e: e.clearing)
    if SCALED in found:
        whole = median(SCALED, lambda e: e.began + e.clearing) / once
        judge(f"{name}: scaled to at once, from the start of the process", whole, CLEARING_GOAL)
        left = max(0.0, 1.0 - BEFORE * PARTITIONS / (backlog.wait / 1000) / backlog.records)
        least = median(SCALED, lambda e: e.began) + BEFORE + left * clearing
        print(f"{name}: the same, if the change took no time: {least / once:.2f}")
        since = median(SCALED, lambda e: e.since) / clearing
        print(f"{name}: scaled, from the call, to at once, from when its lanes ran: {since:.2f}")
    if AUTO in found:
        whole = median(AUTO, lambda e: e.began + e.clearing) / once
        judge(f"{name}: auto to at once, from the start of the process", whole, AUTO_GOAL)
        since = median(AUTO, lambda e: e.clearing) / clearing
        print(f"{name}: the same, from when lanes ran: {since:.2f}")


def compared(
    backlog: Backlog, kinds: Iterable[str], rounds: int, folder: Path, cluster: Cluster | None
) -> dict[str, list[Found]]:
    found: dict[str, list[Found]] = {kind: [] for kind in kinds}
    for number in range(rounds):
        for kind in found if number % 2 == 0 else reversed(found):
            place = folder / f"{kind.replace(' ', '-')}-{number}"
            try:
                found[kind].append(measured(backlog, kind, place, cluster))
            except EndedError as error:
                raise SystemExit(str(error)) from None
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", choices=[*WORKS], default="map", help="what is done (default: map)")
    parser.add_argument("--systems", default="embedded,kafka", help="default: embedded,kafka")
    parser.add_argument("--sides", default="once,scaled,auto", help=f"of {', '.join(SIDES)}; default: once,scaled,auto")
    parser.add_argument("--rounds", type=int, default=5, help="how often each side runs (default: 5)")
    parser.add_argument("--records", type=int, default=RECORDS, help=f"default: {RECORDS:,}")
    parser.add_argument("--wait", type=float, default=WAIT_MS, help=f"ms that a record takes (default: {WAIT_MS:g})")
    parser.add_argument("--containers", type=int, default=1, help="above 1: on a coordinator (default: 1)")
    parser.add_argument("--target", type=float, default=10, help="target_lag_seconds of the autosizer (default: 10)")
    given = parser.parse_args()
    interruptible()
    unknown = [each for each in given.sides.split(",") if each not in SIDES]
    if unknown:
        parser.error(f"there is no side {', '.join(unknown)}: choose of {', '.join(SIDES)}")
    kinds = [SIDES[each] for each in given.sides.split(",")]
    backlog = Backlog(given.work, given.records, given.wait, given.containers, given.target)
    systems = ["kafka"] if given.work == "plain" else given.systems.split(",")
    with clusters.fresh() as cluster, explained():
        found = {
            system: compared(
                backlog, kinds, given.rounds, cluster.folder / system, cluster if system == "kafka" else None
            )
            for system in systems
        }
    for system, its in found.items():
        summary(f"{given.work}, {system}", backlog, its)


if __name__ == "__main__":
    main()
