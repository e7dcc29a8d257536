"""Takes pictures of all pages, light and dark: ``python -m tests.dashboard.screenshots docs/assets/dashboard``.

The job is a played one in trouble: a lane that fails and is tried again, a partition that holds event time back, dead
letters, a change that took longer than predicted, and a standby that can't be kept.
"""

from __future__ import annotations

import sys
import tempfile
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
from PIL import Image
from playwright.sync_api import Page, sync_playwright

from anabranch.config import EmbeddedSettings, Settings, SystemsSettings
from anabranch.systems.records import RECORD_SCHEMA
from anabranch.systems.systems import Systems
from tests.dashboard import scaling
from tests.dashboard.conftest import chromium, settled
from tests.dashboard.played import Played
from tests.support.interruption import interruptible

PAGES = {
    "jobs": "#/",
    "overview": "#/jobs/delays",
    "graph": "#/jobs/delays/graph",
    "matrix": "#/jobs/delays/matrix",
    "moves": "#/jobs/delays/matrix?by=moves&kind=scale&containers=3",
    "lanes": "#/jobs/delays/lanes",
    "timeline": "#/jobs/delays/lanes?view=timeline",
    "lane": "#/jobs/delays/lanes/{lane}",
    "partitions": "#/jobs/delays/partitions",
    "containers": "#/jobs/delays/containers",
    "assignment": "#/jobs/delays/assignment?all=1",
    "changes": "#/jobs/delays/changes",
    "plan": "#/jobs/delays/changes/new?kind=scale&factor=8",
    "drain": "#/jobs/delays/changes/new?kind=drain",
    "sizing": "#/jobs/delays/sizing",
    "events": "#/jobs/delays/events",
    "dead-letters": "#/jobs/delays/dead-letters",
    "coordinator": "#/coordinators",
}
SCHEMES = ("light", "dark")
_COLOURS = 24
_METHOD = Image.Quantize.MAXCOVERAGE
"""Keeps colours that are seldom: a state's, a line's."""
LARGEST = 45_000
"""Bytes of a picture: a page that needs more is cut shorter."""
TROUBLE = "ValueError: 'no number' in column n of embedded/flights/1, offset 88,120 (map, delays.py:12)"


class Clock:
    """Seconds since 1970; may run ahead, so that there is something to draw."""

    def __init__(self) -> None:
        self.behind = 3_000.0

    def __call__(self) -> float:
        return time.time() - self.behind


def troubled(folder: Path) -> Played:
    """A coordinator with such a job."""
    systems = Systems(Settings(systems=SystemsSettings(embedded=EmbeddedSettings(root=folder / "streams"))), "delays")
    clock = Clock()
    played = Played(folder, now=clock, systems=systems, stages=2)
    for turn in range(300):
        clock.behind = 3_000 - 10 * turn
        swing = turn % 60
        for at in range(len(played.lanes)):
            lag = 400 + 30 * swing + 800 * at
            ssps = sorted({str(ssp.whole) for ssp in played.lanes[at].ssps})
            positions = {name: 1_000 * turn + 7 * place for place, name in enumerate(ssps)}
            played.fields[at] = {
                "positions": positions,
                "ends": {name: offset + lag for name, offset in positions.items()},
                "rows_per_second": 500.0 + 4 * swing,
                "arriving": 560.0 - 3 * swing,
            }
        played.beat()
        if turn == 200:
            played.store.note(scaling.begun("delays", clock()))
        if turn == 201:
            played.store.note(scaling.done("delays", clock()))
    clock.behind = 0.0
    holder = sorted({str(ssp.whole) for ssp in played.lanes[0].ssps})[1]
    behind = int(time.time() * 1000) - 2_460_000
    for at in range(len(played.lanes)):
        ssps = sorted({str(ssp.whole) for ssp in played.lanes[at].ssps})
        now = int(time.time() * 1000)
        times = {ssp: now - 1_000 * at - 400 * place for place, ssp in enumerate(ssps)}
        played.fields[at] |= {"watermark": min(times.values()), "times": times}
    played.fields[0]["times"][holder] = behind
    played.fields[0] |= {"held_by": holder, "watermark": behind, "windows": 312_000, "dead_letters": 3}
    played.fields[1] |= {"number": 3, "trouble": TROUBLE, "busy": 0.97, "working": 0.95, "skew": 6.3}
    played.fields[1]["slowest"] = f"{sorted({str(ssp.whole) for ssp in played.lanes[1].ssps})[0]}#3"
    played.beat()
    rejected(systems)
    return played


def rejected(systems: Systems) -> None:
    """Three dead letters."""
    system = systems.named("embedded")
    system.create("flights", 6)
    system.create("flights-dead-letters", 2)
    rows = []
    for number, (value, error) in enumerate(
        [
            (b'{"id": "AA12", "n": "no number"}', "ValueError: 'no number' is no int"),
            (b'{"id": "UA7", "n": null}', "TypeError: 'NoneType' and 'int' can't be compared"),
            (b"\xff\xfe\x00\x01", "the value is no JSON: byte 0 is 0xff"),
        ]
    ):
        said = {
            "error": error,
            "operator": "map",
            "stream": "flights",
            "partition": "1",
            "offset": str(88_120 + number),
        }
        headers = [{"key": f"anabranch.{name}", "value": text.encode()} for name, text in said.items()]
        at = datetime.fromtimestamp(time.time() - 60 * number, UTC)
        rows.append({"key": b"AA12", "value": value, "headers": headers, "timestamp": at})
    with closing(system.appender("flights-dead-letters")) as appender:
        appender.append(pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA))


def shoot(page: Page, path: Path) -> int:
    """A picture with as few colours as do, cut shorter while it is too large; gives its bytes."""
    high = int(page.evaluate("document.documentElement.scrollHeight"))
    for height in (900, 700):
        size = {"x": 0, "y": 0, "width": 1_100, "height": min(high, height)}
        page.screenshot(path=path, full_page=True, clip=size)  # type: ignore[arg-type]
        with Image.open(path) as taken:
            drawn = taken.convert("RGB").quantize(_COLOURS, _METHOD, dither=Image.Dither.NONE)
        drawn.save(path, optimize=True)
        if path.stat().st_size <= LARGEST:
            break
    return path.stat().st_size


def main(folder: Path) -> None:
    interruptible()
    folder.mkdir(parents=True, exist_ok=True)
    total = 0
    with tempfile.TemporaryDirectory(prefix="anabranch-pictures-") as place, sync_playwright() as playwright:
        played = troubled(Path(place))
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        for scheme in SCHEMES:
            context = browser.new_context(
                viewport={"width": 1_100, "height": 900},
                color_scheme=scheme,  # type: ignore[arg-type]
                timezone_id="Europe/Berlin",
                reduced_motion="reduce",
            )
            page = context.new_page()
            page.goto(played.url)
            for name, address in PAGES.items():
                played.beat()
                settled(page, address.format(lane=played.lanes[1].id))
                page.wait_for_load_state("networkidle")
                page.wait_for_timeout(500)
                size = shoot(page, folder / f"{name}-{scheme}.png")
                total += size
                print(f"{size:7,} {name}-{scheme}.png", flush=True)
            context.close()
        browser.close()
        played.close()
    print(f"{total:7,} bytes in all")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("python -m tests.dashboard.screenshots FOLDER")
    main(Path(sys.argv[1]))
