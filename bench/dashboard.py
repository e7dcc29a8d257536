"""Compares the dashboard with its budgets, in Chromium, for 10,000 tasks, 100 containers and 1,000 events.

The command also compares how long the coordinator takes to answer a heartbeat with 20 open pages and with none. The
coordinator runs in a process of its own, on SQLite. Containers are simulated, without Spark.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import math
import statistics
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import sync_playwright
from tests.dashboard.conftest import chromium
from tests.support.interruption import interruptible

from anabranch.coordinator.api import listening, server
from anabranch.coordinator.api.client import Client
from anabranch.coordinator.store import Store
from anabranch.model.lane import Lane
from anabranch.protocol.container import Heartbeat
from bench.reads import CONTAINERS, EVENTS, JOB, SHAPES, report, started
from bench.support.beating import TOKEN
from bench.support.browser_tabs import PAN, Tab
from bench.support.page_load import PAGES, PERIOD, Load, Served

ALLOWED_RATIO = 1.1
SHAPE = "10,000 x 1"
LARGER = {"1,000 lanes": (10_000, 1, 10), "100,000 x 1": (100_000, 1, 1)}
"""Larger jobs. The first has more lanes, and must meet the same budgets. The second has more tasks, of which pages show
only a part, with a note.
"""
ADDRESSES = ("", "/matrix", "/lanes", "/lanes?view=timeline", "/partitions", "/containers", "/events")
_PATH = f"/jobs/{JOB}"
_SETTLES = 3.0
_SLOWER = 4
"""For some budgets, the browser is made slower by this factor."""


@dataclass(frozen=True)
class Budget:
    name: str
    allowed: float
    unit: str

    def told(self, value: float) -> tuple[str, bool]:
        fine = value <= self.allowed
        return f"{self.name:52} {value:10,.1f} {self.allowed:10,.1f} {self.unit:6} {'' if fine else 'MISSED'}", fine


BUDGETS = {
    "js": Budget("script, compressed", 100, "kB"),
    "css": Budget("style sheet, compressed", 15, "kB"),
    "all": Budget("all that is loaded before the first request, compressed", 150, "kB"),
    "paint": Budget(f"first contentful paint, CPU {_SLOWER}x slower", 500, "ms"),
    "useful": Budget(f"figures of the overview, CPU {_SLOWER}x slower", 1_000, "ms"),
    "needed": Budget("of which the page had the CPU, with what drives it", 1_000, "ms"),
    "matrix": Budget("first picture of the matrix", 1_500, "ms"),
    # At 60 frames a second, a frame takes 16.7 ms, plus or minus a millisecond. A frame that is too late takes 33 ms.
    "frame": Budget("a frame while the matrix is panned and zoomed, p95", 20, "ms"),
    "draw": Budget("of which the page's own work, p95", 16, "ms"),
    "update": Budget("an update, the most of all pages: CPU time of the page", 10, "ms"),
    "task": Budget("longest task after the page is loaded", 100, "ms"),
    "nodes": Budget("DOM nodes, the most of all pages", 5_000, ""),
    "heap": Budget("heap, the most of all pages", 150, "MB"),
    "wire": Budget("a page that is open, the most of all pages", 20, "kB/s"),
}


def serve(folder: Path, shape: str = SHAPE) -> None:
    """Run the coordinator until standard input is closed."""
    store = Store(f"sqlite:///{folder / 'store.db'}")
    coordinator = started(store, *{**SHAPES, **LARGER}[shape])
    listens = listening.Server(server.app(coordinator, token=TOKEN), listening.listen())
    listening.keep_prompt()
    print(listens.url, flush=True)
    while sys.stdin.readline():  # an empty line arrives each second
        coordinator.tick()
    listens.close()
    store.close()


def beating(served: Served) -> list[tuple[str, Heartbeat]]:
    """A heartbeat of each container, which the container sends again and again, with different figures each time."""
    with Client(served.url, token=TOKEN, timeout=60.0) as client:
        status = client.status(JOB)
    of_seat: defaultdict[str, list[Lane]] = defaultdict(list)
    for each in status.lanes:
        of_seat[each.lane.seat].append(each.lane)
    return [
        (
            f"/containers/{its.container}/heartbeat",
            Heartbeat(
                container=its.container,
                epoch=its.epoch,
                number=0,
                lanes=tuple(report(lane, its.epoch) for lane in of_seat[its.seat]),
            ),
        )
        for its in status.containers
    ]


def at(share: float, values: Sequence[float]) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, math.ceil(len(ordered) * share) - 1)] if ordered else math.nan


def weights() -> dict[str, float]:
    folder = Path(listening.__file__).parents[1] / "static"
    sizes: defaultdict[str, float] = defaultdict(float)
    for path in folder.iterdir():
        sizes[path.suffix] += len(gzip.compress(path.read_bytes(), 9)) / 1000
    return {"js": sizes[".js"], "css": sizes[".css"], "all": sizes[".js"] + sizes[".css"] + sizes[".html"]}


def in_browser(served: Served, load: Load, seconds: float) -> tuple[dict[str, float], list[list[str]]]:
    """Measure the figures that have budgets. The second result lists, for each open page, the requests that the page
    repeats about every two seconds.
    """
    found, asked = weights(), list[list[str]]()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        Tab(browser, served.url, _PATH).close()  # the first page also starts other parts of the browser
        paints, useful, needed = [], [], []
        for _ in range(3):
            tab = Tab(browser, served.url, _PATH, _SLOWER)
            useful.append(tab.until(".figures strong"))
            needed.append(1000 * tab.metrics()["TaskDuration"])
            paints.append(tab.paint())
            tab.close()
        found |= {"paint": statistics.median(paints), "useful": statistics.median(useful)}
        found["needed"] = statistics.median(needed)
        most = {"nodes": 0.0, "heap": 0.0, "wire": 0.0, "task": 0.0, "update": 0.0}
        for address in ADDRESSES:
            tab = Tab(browser, served.url, _PATH + address)
            first = tab.until(".canvas canvas" if address == "/matrix" else "main h1")
            tab.page.wait_for_timeout(1000 * _SETTLES)
            begun = time.perf_counter()
            wire, rate, work, longest = tab.watched(load, seconds)
            if address == "/matrix":
                frames, works = tab.page.evaluate(PAN)
                found |= {"matrix": first, "frame": at(0.95, frames), "draw": at(0.95, works)}
            its = {"nodes": tab.nodes(), "heap": tab.heap_mb(), "wire": wire, "task": longest, "update": work}
            most = {name: max(value, its[name]) for name, value in most.items()}
            urls = Counter(each.removeprefix(served.url) for when, each in tab.asked if when > begun)
            asked.append(sorted(url for url, times in urls.items() if times >= 0.7 * seconds / PERIOD))
            print(
                f"  {address or '/':20} {rate:5.1f} requests/s {wire:6.1f} kB/s {work:6.1f} ms an update "
                f"{its['nodes']:6,.0f} nodes {its['heap']:5.1f} MB, longest task {longest:.0f} ms",
                flush=True,
            )
            tab.close()
        browser.close()
    return found | most, asked


def beats(served: Served, load: Load, asked: Sequence[Sequence[str]], seconds: float, rounds: int) -> bool:
    """Measure heartbeats alternately without and with open pages. Returns whether pages cost no more than allowed."""
    several = sum(len(asked[place % len(asked)]) for place in range(PAGES)) / PERIOD
    print(f"\n{PAGES} pages ask {several:.0f} times a second; {CONTAINERS} containers beat every {PERIOD:g} s")
    print(f"{'':20} {'beats':>7} {'p50 ms':>7} {'p99 ms':>7} {'max ms':>7} {'coordinator':>11}")
    middles: dict[str, list[float]] = {"no page": [], f"{PAGES} pages": []}
    for turn in range(2 * rounds):
        name = list(middles)[turn % 2]
        cpu, begun = served.cpu_seconds(), time.perf_counter()
        latencies = asyncio.run(load.run(seconds, asked if turn % 2 else ()))
        share = (served.cpu_seconds() - cpu) / (time.perf_counter() - begun)
        middles[name].append(at(0.5, latencies))
        figures = f"{at(0.5, latencies):7.1f} {at(0.99, latencies):7.1f} {max(latencies):7.1f} {share:11.0%}"
        print(f"{name:20} {len(latencies):7,} {figures}", flush=True)
    ratio = statistics.median(several / alone for alone, several in zip(*middles.values(), strict=True))
    print(f"with pages / without, of the p50: {ratio:.2f}; allowed: {ALLOWED_RATIO}")
    return ratio <= ALLOWED_RATIO


def main() -> None:
    interruptible()
    words = argparse.ArgumentParser(prog="scripts/bench dashboard", description=__doc__)
    words.add_argument("--seconds", type=float, default=10.0, help="that each page is watched (default: 10)")
    words.add_argument("--beats", type=float, default=15.0, help="seconds of each stretch of beats (default: 15)")
    words.add_argument("--rounds", type=int, default=3, help="stretches with and without pages (default: 3)")
    words.add_argument("--shape", choices=[*SHAPES, *LARGER], default=SHAPE, help=f"default: {SHAPE}")
    words.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    given = words.parse_args()
    if given.serve is not None:
        serve(given.serve, given.shape)
        return
    with tempfile.TemporaryDirectory(prefix="anabranch-bench-") as folder:
        served = Served([sys.executable, "-m", "bench.dashboard", "--shape", given.shape, "--serve", folder])
        try:
            print(f"{given.shape}: {CONTAINERS} containers, {EVENTS:,} events", flush=True)
            load = Load(served, beating(served))
            found, asked = in_browser(served, load, given.seconds)
            print(f"\n{'':52} {'measured':>10} {'allowed':>10}")
            told = [budget.told(found[name]) for name, budget in BUDGETS.items()]
            print("\n".join(line for line, _ in told), flush=True)
            fine = _all(each for _, each in told)
            fine = beats(served, load, asked, given.beats, given.rounds) and fine
        finally:
            served.close()
    if not fine:
        sys.exit(1)


def _all(several: Iterable[bool]) -> bool:
    return all(list(several))


if __name__ == "__main__":
    main()
