"""What ten open pages of the dashboard cost in half an hour, with 10,000 tasks and 100 containers that send heartbeats.

The command measures how large the pages' heaps are, how much the data in these heaps grows, and what the pages cost the
coordinator. Two pages show the matrix, two the partitions, and two make a plan of another scale every five seconds. The
coordinator is the one that ``bench.dashboard`` starts.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import threading
import time
from typing import NamedTuple

from playwright.sync_api import sync_playwright
from tests.dashboard.conftest import chromium
from tests.support.interruption import interruptible

from bench.dashboard import SHAPE, at, beating
from bench.reads import JOB
from bench.support.browser_tabs import Tab
from bench.support.page_load import PERIOD, Load, Served

_PLAN = "/changes/new?kind=scale&factor="
PAGES = (
    "/matrix",
    "/matrix",
    "/partitions",
    "/partitions",
    f"{_PLAN}2",
    f"{_PLAN}4",
    "",
    "/lanes",
    "/containers",
    "/events",
)
PLANS_EVERY = 5.0
FIRST_LOOK = 5 / 30
"""When heaps are first measured, as a fraction of the whole time. By then, each page has been updated many times."""
ALLOWED_HEAP_MB, ALLOWED_GROWTH, ALLOWED_SHARE, ALLOWED_P99_MS = 150.0, 1.1, 0.02, 50.0


class Sizes(NamedTuple):
    """The sizes of a page. The first two are in MB; see :class:`Tab`."""

    heap: float
    kept: float
    nodes: float


def sizes(tabs: list[Tab]) -> list[Sizes]:
    return [Sizes(tab.heap_mb(), tab.kept_mb(), tab.nodes_alive()) for tab in tabs]


def kept_open(tabs: list[Tab], seconds: float) -> list[Sizes]:
    """Keep the pages open for ``seconds``, and let two of them plan. Returns the sizes at the first measurement."""
    begun, first, turn = time.perf_counter(), list[Sizes](), 0
    while (passed := time.perf_counter() - begun) < seconds:
        if not first and passed > FIRST_LOOK * seconds:
            first = sizes(tabs)
        turn += 1
        for place, (tab, address) in enumerate(zip(tabs, PAGES, strict=True)):
            if address.startswith(_PLAN):
                tab.page.evaluate(
                    "(hash) => { location.hash = hash }", f"/jobs/{JOB}{_PLAN}{2 ** (1 + (turn + place) % 3)}"
                )
        if turn % 24 == 0:
            print(f"  {passed / 60:.0f} minutes: {sum(tab.heap_mb() for tab in tabs):.1f} MB in all pages", flush=True)
        tabs[0].page.wait_for_timeout(1000 * PLANS_EVERY)
    return first


def opened(served: Served, load: Load, seconds: float) -> bool:
    """Keep the pages open. Returns whether they stay small, and cost the coordinator no more than allowed."""
    alone = asyncio.run(load.run(30.0))
    cpu, begun = served.cpu_seconds(), time.perf_counter()
    asyncio.run(load.run(30.0))
    without = (served.cpu_seconds() - cpu) / (time.perf_counter() - begun)
    latencies: list[float] = []
    beats = threading.Thread(target=lambda: latencies.extend(asyncio.run(load.run(seconds))))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        tabs = [Tab(browser, served.url, f"/jobs/{JOB}{address}") for address in PAGES]
        for tab in tabs:
            tab.until("main h1")
        cpu, begun = served.cpu_seconds(), time.perf_counter()
        beats.start()
        first = kept_open(tabs, seconds)
        share = (served.cpu_seconds() - cpu) / (time.perf_counter() - begun)
        last = sizes(tabs)
        beats.join()
        browser.close()
    print(f"\n{'page':34} {'heap MB, then and at last':>26} {'of that not code':>17} {'growth':>7} {'nodes':>14}")
    for address, then, now in zip(PAGES, first, last, strict=True):
        print(
            f"{address or '/':34} {then.heap:20.2f} {now.heap:5.2f} {then.kept:11.2f} {now.kept:5.2f} "
            f"{now.kept / then.kept:7.2f} {then.nodes:8,.0f} {now.nodes:5,.0f}"
        )
    pages = len(PAGES) - sum(each.startswith(_PLAN) for each in PAGES)
    print(
        f"beats: p50 {statistics.median(latencies):.1f} ms, p99 {at(0.99, latencies):.1f}, max {max(latencies):.1f}; "
        f"without pages: p50 {statistics.median(alone):.1f} ms, p99 {at(0.99, alone):.1f}"
    )
    print(
        f"coordinator: {share:.1%} of a core, {without:.1%} without pages; {pages} pages ask every {PERIOD:g} s, the "
        f"others plan every {PLANS_EVERY:g} s\n"
    )
    pairs = list(zip(first, last, strict=True))
    found = {
        "largest heap, in MB": (max(each.heap for each in last), ALLOWED_HEAP_MB),
        "growth of what pages keep": (max(b.kept / a.kept for a, b in pairs), ALLOWED_GROWTH),
        "growth of the nodes they keep": (
            max(b.nodes / a.nodes for a, b in zip(first, last, strict=True)),
            ALLOWED_GROWTH,
        ),
        "p99 of beats, in ms": (at(0.99, latencies), ALLOWED_P99_MS),
        "share of a core for a page": ((share - without) / len(PAGES), ALLOWED_SHARE),
    }
    for name, (value, allowed) in found.items():
        print(f"{name:28} {value:8.3f} {allowed:8g} {'' if value <= allowed else 'MISSED'}")
    return all(value <= allowed for value, allowed in found.values())


def main() -> None:
    interruptible()
    words = argparse.ArgumentParser(prog="scripts/bench open_pages", description=__doc__)
    words.add_argument("--minutes", type=float, default=30.0, help="that the pages stay open (default: 30)")
    given = words.parse_args()
    with tempfile.TemporaryDirectory(prefix="anabranch-bench-") as folder:
        served = Served([sys.executable, "-m", "bench.dashboard", "--serve", folder])
        try:
            print(f"{SHAPE}: {len(PAGES)} pages open for {given.minutes:g} minutes", flush=True)
            fine = opened(served, Load(served, beating(served)), 60 * given.minutes)
        finally:
            served.close()
    if not fine:
        sys.exit(1)


if __name__ == "__main__":
    main()
