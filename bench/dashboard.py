"""The dashboard with 10,000 tasks, 100 containers and 1,000 events, in Chromium, against its budgets; and how long the
coordinator takes for a beat while 20 pages are open, against none.

The coordinator listens in a process of its own, on SQLite; containers are played, without Spark.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import itertools
import math
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from playwright.sync_api import Browser, CDPSession, Page, sync_playwright
from tests.dashboard.conftest import chromium
from tests.support.interruption import interruptible

from anabranch.coordinator.api import listening, server
from anabranch.coordinator.api.client import Client
from anabranch.coordinator.store import Store
from anabranch.model.document import compact
from anabranch.protocol.container import Heartbeat
from bench.reads import CONTAINERS, EVENTS, JOB, SHAPES, report, started
from bench.support.beating import TOKEN

PERIOD = 2.0
PAGES, ALLOWED_RATIO = 20, 1.1
SHAPE = "10,000 x 1"
ADDRESSES = ("", "/matrix", "/lanes", "/lanes?view=timeline", "/partitions", "/containers", "/events")
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_ETAG = re.compile(rb"etag: *(\S+)", re.IGNORECASE)
_SETTLES = 3.0
_SLOWER = 4
"""So many times slower the browser is made where the budgets say so."""


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
    "frame": Budget("a frame while the matrix is panned and zoomed, p95", 16.7, "ms"),
    "draw": Budget("of which the page's own work, p95", 16, "ms"),
    "update": Budget("an update, the most of all pages: CPU time of the page", 10, "ms"),
    "task": Budget("longest task after the page is loaded", 100, "ms"),
    "nodes": Budget("DOM nodes, the most of all pages", 5_000, ""),
    "heap": Budget("heap, the most of all pages", 150, "MB"),
    "wire": Budget("a page that is open, the most of all pages", 20, "kB/s"),
}


def serve(folder: Path) -> None:
    """The coordinator, until its standard input ends."""
    store = Store(f"sqlite:///{folder / 'store.db'}")
    coordinator = started(store, *SHAPES[SHAPE])
    listens = listening.Server(server.app(coordinator, token=TOKEN), listening.listen())
    print(listens.url, flush=True)
    while sys.stdin.readline():  # an empty line each second
        coordinator.tick()
    listens.close()
    store.close()


class Served:
    """The coordinator's process. ``tick`` it about every second."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-m", "bench.dashboard", "--serve", str(folder)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()
        if not self.url:
            raise SystemExit("the coordinator didn't start: see above")

    def tick(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / 100

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)


def beating(served: Served) -> list[tuple[str, Heartbeat]]:
    """A beat of each container, to be sent again and again with other figures."""
    with Client(served.url, token=TOKEN, timeout=60.0) as client:
        status = client.status(JOB)
    of_seat = {each.lane.seat: each.lane for each in status.lanes}
    return [
        (
            f"/containers/{each.container}/heartbeat",
            Heartbeat(
                container=each.container,
                epoch=each.epoch,
                number=0,
                lanes=(report(of_seat[each.seat], each.epoch),),
            ),
        )
        for each in status.containers
    ]


class Connection:
    """Requests one after another, as cheap for whoever sends them as can be: other things are measured."""

    def __init__(self, url: str) -> None:
        self._host, port = url.removeprefix("http://").split(":")
        self._port = int(port)
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, method: str, path: str, body: bytes = b"", more: str = "") -> str:
        """Gives the ETag of the answer. AssertionError unless that is 200 or 304."""
        if self._streams is None:
            self._streams = await asyncio.open_connection(self._host, self._port)
        reader, writer = self._streams
        kind = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n" if body else ""
        head = f"{method} {path} HTTP/1.1\r\nHost: {self._host}:{self._port}\r\nAuthorization: Bearer {TOKEN}\r\n"
        writer.write(f"{head}Accept-Encoding: gzip\r\n{kind}{more}\r\n".encode() + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        length = _LENGTH.search(answer)
        content = await reader.readexactly(int(length[1])) if length and b" 304 " not in answer[:15] else b""
        assert answer[9:12] in (b"200", b"304"), answer + content[:300]
        etag = _ETAG.search(answer)
        return etag[1].decode() if etag else ""

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()


class Load:
    """Containers that beat every two seconds, and pages that ask for the same as those in Chromium."""

    def __init__(self, served: Served, beats: Sequence[tuple[str, Heartbeat]]) -> None:
        self._served = served
        self._beats = beats
        self._number = itertools.count(1_000)

    async def run(self, seconds: float, asked: Sequence[Sequence[str]] = ()) -> list[float]:
        """The latencies of beats, in ms. ``asked``: what pages ask for every two seconds, each in turn as one of these
        does."""
        latencies: list[float] = []
        end = time.perf_counter() + seconds
        beats = [self._beat(place, end, latencies) for place in range(len(self._beats))]
        pages = [self._page(place, asked[place % len(asked)], end) for place in range(PAGES if asked else 0)]
        await asyncio.gather(self._tick(end), *beats, *pages)
        return latencies

    async def _tick(self, end: float) -> None:
        while time.perf_counter() < end:
            self._served.tick()
            await asyncio.sleep(1.0)

    async def _beat(self, place: int, end: float, latencies: list[float]) -> None:
        path, beat = self._beats[place]
        due = time.perf_counter() + place * PERIOD / len(self._beats)
        connection = Connection(self._served.url)
        while due < end:
            number = next(self._number)
            lanes = tuple(each.changed(batch=number) for each in beat.lanes)
            body = compact(msgspec.structs.replace(beat, number=number, lanes=lanes))
            await asyncio.sleep(due - time.perf_counter())
            begun = time.perf_counter()
            await connection.ask("POST", path, body)
            latencies.append(1000 * (time.perf_counter() - begun))
            due += PERIOD
        connection.close()

    async def _page(self, place: int, asked: Sequence[str], end: float) -> None:
        etags: dict[str, str] = {}
        connection = Connection(self._served.url)
        due = time.perf_counter() + place * PERIOD / PAGES
        while due < end:
            await asyncio.sleep(due - time.perf_counter())
            for path in asked:
                known = f"If-None-Match: {etags[path]}\r\n" if etags.get(path) else ""
                etags[path] = await connection.ask("GET", path, more=known) or etags.get(path, "")
            due += PERIOD
        connection.close()


def at(share: float, values: Sequence[float]) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, math.ceil(len(ordered) * share) - 1)] if ordered else math.nan


class Tab:
    """A page in a context of its own, and what the browser knows of it."""

    def __init__(self, browser: Browser, url: str, address: str, slower: float = 1) -> None:
        self._context = browser.new_context(viewport={"width": 1280, "height": 900})
        self.page: Page = self._context.new_page()
        self.page.set_default_timeout(120_000)
        self.asked: list[tuple[float, str]] = []
        self.page.on("request", lambda each: self.asked.append((time.perf_counter(), each.url)))
        self._protocol: CDPSession = self._context.new_cdp_session(self.page)
        self._bytes = 0
        self._protocol.on("Network.loadingFinished", self._loaded)
        self._protocol.send("Network.enable")
        # in CPU time of the page's thread: on a busy machine it waits for a core like anybody else
        self._protocol.send("Performance.enable", {"timeDomain": "threadTicks"})
        if slower > 1:
            self._protocol.send("Emulation.setCPUThrottlingRate", {"rate": slower})
        self.page.add_init_script(
            f"sessionStorage.setItem('anabranch-token', {TOKEN!r}); window.tasks = [];"
            "new PerformanceObserver((list) => window.tasks.push(...list.getEntries().map((each) => each.duration)))"
            ".observe({type: 'longtask'});"
        )
        self.page.goto(f"{url}/ui/#/jobs/{JOB}{address}", wait_until="commit")

    def _loaded(self, event: dict[str, Any]) -> None:
        self._bytes += int(event["encodedDataLength"])

    def until(self, selector: str) -> float:
        """When it is there, in ms after navigation."""
        self.page.wait_for_selector(selector)
        return float(self.page.evaluate("performance.now()"))

    def paint(self) -> float:
        return float(self.page.evaluate("performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? -1"))

    def metrics(self) -> dict[str, float]:
        found = self._protocol.send("Performance.getMetrics")["metrics"]
        return {each["name"]: each["value"] for each in found}

    def heap_mb(self) -> float:
        self._protocol.send("HeapProfiler.collectGarbage")
        return self.metrics()["JSHeapUsedSize"] / 1e6

    def nodes(self) -> float:
        return float(self.page.evaluate("document.querySelectorAll('*').length"))

    def watched(self, load: Load, seconds: float) -> tuple[float, float, float, float]:
        """For so long, while containers beat: kB a second, requests a second, CPU ms for each look, longest task."""
        self.page.evaluate("window.tasks.length = 0")
        before, bytes_before, asked = self.metrics(), self._bytes, len(self.asked)
        _beside(self.page, load, seconds)
        after = self.metrics()
        works = ("ScriptDuration", "LayoutDuration", "RecalcStyleDuration")
        work = 1000 * sum(after[each] - before[each] for each in works)
        looks = max(1.0, seconds / PERIOD)
        longest = max(self.page.evaluate("window.tasks"), default=0.0)
        return (
            (self._bytes - bytes_before) / seconds / 1000,
            (len(self.asked) - asked) / seconds,
            work / looks,
            longest,
        )

    def close(self) -> None:
        self._context.close()


def _beside(page: Page, load: Load, seconds: float) -> None:
    """Let containers beat in another thread, while the page lives on."""
    thread = threading.Thread(target=lambda: asyncio.run(load.run(seconds)))
    thread.start()
    while thread.is_alive():
        page.wait_for_timeout(200)
    thread.join()


_PAN = """async () => {
    const box = document.querySelector('.canvas');
    const frames = [], works = [];
    let last = performance.now();
    for (let turn = 0; turn < 120; turn += 1) {
        const zooms = turn % 10 === 0;
        const begun = performance.now();
        box.dispatchEvent(new WheelEvent('wheel', {deltaY: zooms ? (turn % 20 ? -1 : 1) : 40, ctrlKey: zooms,
            bubbles: true, cancelable: true}));
        await new Promise((done) => requestAnimationFrame(() => { const drawn = performance.now();
            const channel = new MessageChannel();
            channel.port1.onmessage = () => { works.push(performance.now() - drawn); done(); };
            channel.port2.postMessage(0); }));
        const now = performance.now();
        frames.push(now - last);
        last = now;
    }
    return [frames, works];
}"""


def weights() -> dict[str, float]:
    folder = Path(listening.__file__).parents[1] / "static"
    sizes = {path.suffix: len(gzip.compress(path.read_bytes(), 9)) / 1000 for path in folder.glob("*.*s*")}
    files = [path for path in folder.iterdir() if path.suffix in {".js", ".css", ".html"}]
    return {
        "js": sizes[".js"],
        "css": sizes[".css"],
        "all": sum(len(gzip.compress(each.read_bytes(), 9)) / 1000 for each in files),
    }


def in_browser(served: Served, load: Load, seconds: float) -> tuple[dict[str, float], list[list[str]]]:
    """The figures of the budgets, and what each open page asks for at least every two seconds."""
    found, asked = weights(), list[list[str]]()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        Tab(browser, served.url, "").close()  # the first one starts much else
        paints, useful, needed = [], [], []
        for _ in range(3):
            tab = Tab(browser, served.url, "", _SLOWER)
            useful.append(tab.until(".figures strong"))
            needed.append(1000 * tab.metrics()["TaskDuration"])
            paints.append(tab.paint())
            tab.close()
        found |= {"paint": statistics.median(paints), "useful": statistics.median(useful)}
        found["needed"] = statistics.median(needed)
        most = {"nodes": 0.0, "heap": 0.0, "wire": 0.0, "task": 0.0, "update": 0.0}
        for address in ADDRESSES:
            tab = Tab(browser, served.url, address)
            first = tab.until(".canvas canvas" if address == "/matrix" else "main h1")
            tab.page.wait_for_timeout(1000 * _SETTLES)
            begun = time.perf_counter()
            wire, rate, work, longest = tab.watched(load, seconds)
            if address == "/matrix":
                frames, works = tab.page.evaluate(_PAN)
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
    """Beats alone and with pages, in turn; gives whether pages cost no more than they may."""
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
    words.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    given = words.parse_args()
    if given.serve is not None:
        serve(given.serve)
        return
    with tempfile.TemporaryDirectory(prefix="anabranch-bench-") as folder:
        served = Served(Path(folder))
        try:
            print(f"{SHAPE}: 10,000 tasks, {CONTAINERS} containers with a lane each, {EVENTS:,} events", flush=True)
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
