"""Pages of the dashboard in Chromium, and the browser's measurements of them."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from typing import Any

from playwright.sync_api import Browser, CDPSession, Page

from bench.support.beating import TOKEN
from bench.support.page_load import PERIOD, Load

PAN = """async () => {
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
"""Pans and zooms the matrix. Returns the milliseconds of each frame, and of the page's own work in each frame."""


_SEEN = """window.seen = {};
new MutationObserver(() => {
    for (const each of ['.figures strong', '.canvas canvas', 'main h1'])
        if (!(each in window.seen) && document.querySelector(each)) window.seen[each] = performance.now();
}).observe(document, {childList: true, subtree: true});"""
"""Notes when the elements that a benchmark waits for appear. Requests from outside would cost the page time, especially
if the page is slowed down.
"""


_NOT_KEPT = {"code", "native"}


class Tab:
    """A page in a browser context of its own, and what the browser knows of the page. ``address`` is the page's path in
    the dashboard, such as /jobs/JOB.
    """

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
        # CPU time of the page's thread, because on a busy machine, the thread also waits for a core
        self._protocol.send("Performance.enable", {"timeDomain": "threadTicks"})
        if slower > 1:
            self._protocol.send("Emulation.setCPUThrottlingRate", {"rate": slower})
        self.page.add_init_script(
            f"sessionStorage.setItem('anabranch-token', {TOKEN!r}); window.tasks = [];"
            "new PerformanceObserver((list) => window.tasks.push(...list.getEntries().map((each) => each.duration)))"
            ".observe({type: 'longtask'});" + _SEEN
        )
        self.page.goto(f"{url}/ui/#{address}", wait_until="commit")

    def _loaded(self, event: dict[str, Any]) -> None:
        self._bytes += int(event["encodedDataLength"])

    def until(self, selector: str) -> float:
        """Wait for a selector, one of those in ``_SEEN``. Returns when its element appeared, in ms after navigation."""
        self.page.wait_for_selector(selector)
        return float(self.page.evaluate("(selector) => window.seen[selector]", selector))

    def paint(self) -> float:
        return float(self.page.evaluate("performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? -1"))

    def metrics(self) -> dict[str, float]:
        found = self._protocol.send("Performance.getMetrics")["metrics"]
        return {each["name"]: each["value"] for each in found}

    def heap_mb(self) -> float:
        self._protocol.send("HeapProfiler.collectGarbage")
        return self.metrics()["JSHeapUsedSize"] / 1e6

    def kept_mb(self) -> float:
        """The size of the objects, strings and arrays that the page's script keeps, in MB. This leaves out machine
        code, which is also in the heap: the browser compiles frequent code again and again, and discards it at will.
        """
        chunks: list[str] = []
        self._protocol.on("HeapProfiler.addHeapSnapshotChunk", listener := lambda event: chunks.append(event["chunk"]))
        self._protocol.send("HeapProfiler.collectGarbage")
        self._protocol.send("HeapProfiler.takeHeapSnapshot", {"reportProgress": False})
        self._protocol.remove_listener("HeapProfiler.addHeapSnapshotChunk", listener)
        found = json.loads("".join(chunks))
        fields, nodes = found["snapshot"]["meta"]["node_fields"], found["nodes"]
        kinds = found["snapshot"]["meta"]["node_types"][fields.index("type")]
        each_kind, sizes = nodes[fields.index("type") :: len(fields)], nodes[fields.index("self_size") :: len(fields)]
        # "native" is what the browser itself keeps for a page, mostly for the protocol that takes these measurements.
        return sum(size for kind, size in zip(each_kind, sizes, strict=True) if kinds[kind] not in _NOT_KEPT) / 1e6

    def nodes_alive(self) -> float:
        """The number of DOM nodes, including nodes that are no longer in the page but still referenced."""
        self._protocol.send("HeapProfiler.collectGarbage")
        return float(self._protocol.send("Memory.getDOMCounters")["nodes"])

    def nodes(self) -> float:
        return float(self.page.evaluate("document.querySelectorAll('*').length"))

    def watched(self, load: Load, seconds: float) -> tuple[float, float, float, float]:
        """Watch the page for ``seconds``, while containers send heartbeats. Returns kB per second, requests per second,
        CPU ms per update, and the longest task in ms.
        """
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
    """Let containers send heartbeats in another thread, while the page keeps running."""
    thread = threading.Thread(target=lambda: asyncio.run(load.run(seconds)))
    thread.start()
    while thread.is_alive():
        page.wait_for_timeout(200)
    thread.join()
