"""What a page shows of a job that fares badly: a container that freezes, and what happened at three in the morning."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from anabranch.coordinator.store import Event
from tests.dashboard.conftest import NAMED, SLOWEST, Visit, settled
from tests.dashboard.played import Container, Played

expect.set_options(timeout=SLOWEST)


def test_a_frozen_container_is_seen_to_lose_its_seat_and_another_to_go_on(tmp_path: Path, visit: Visit) -> None:
    played = Played(tmp_path, lease=2.0, grace=1.0)
    try:
        page = visit(f"{played.url}#/jobs/delays/containers")
        frozen = played.containers[1]
        lane = next(each for each in played.lanes if each.seat == "1")
        row = page.locator(f"[data-row='{frozen.me.container}']")
        end = time.monotonic() + SLOWEST / 1000
        while time.monotonic() < end and "alive" not in row.inner_text():  # its lease is shorter than a slow page
            played.beat()
            time.sleep(0.2)
        expect(row).to_contain_text("alive")
        played.containers.remove(frozen)
        end = time.monotonic() + SLOWEST / 1000
        while time.monotonic() < end and "lost" not in row.inner_text():
            played.beat()
            time.sleep(0.2)
        expect(row).to_contain_text("lost")
        expect(row).to_contain_text("it sent no heartbeat for")
        (fence,) = played.coordinator.fences()
        assert fence.lane.id == lane.id
        settled(page, "#/jobs/delays")
        expect(page.locator("main")).to_contain_text(f"lane {lane.id} waits until its former process can write no more")
        played.coordinator.fenced(fence.lane)
        played.containers.append(Container(played.coordinator, "delays", "1", host="host-new"))
        for _ in range(3):
            played.beat()
        settled(page, "#/jobs/delays/containers")
        its = page.locator(f"[data-row='{played.containers[1].me.container}']")
        expect(its).to_contain_text("alive")
        expect(its).to_contain_text("host-new")
        assert played.containers[1].me.epoch > frozen.me.epoch
        settled(page, "#/jobs/delays/events")
        expect(page.locator(".log [data-row]")).not_to_have_count(0)
        lines = list(reversed(page.locator(".log [data-row]").all_inner_texts()))
        places = [
            next(at for at, line in enumerate(lines) if all(word in line for word in words))
            for words in (["seat 1", frozen.me.container], [f"lane {lane.id} is fenced"], ["host-new"])
        ]
        assert places == sorted(set(places)), lines
    finally:
        played.close()


EVENTS = 5_000
HOUR = 3_600.0
NIGHT = datetime(2026, 11, 24, 21, tzinfo=UTC).timestamp()


class Nightly:
    """The coordinator's clock, set by a test."""

    def __init__(self) -> None:
        self.at = NIGHT

    def __call__(self) -> float:
        return self.at


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    """Ten hours with an event each seven seconds, by two coordinators one after another; of the three hours from
    midnight on there are no figures."""
    clock = Nightly()
    played = Played(tmp_path_factory.mktemp("night"), now=clock, of_server={"hosts": [NAMED]})
    while clock.at < NIGHT + 10 * HOUR:
        clock.at += 10
        if not 3 * HOUR <= clock.at - NIGHT < 6 * HOUR:
            played.coordinator.look()
    step = 10 * HOUR / EVENTS
    played.store.note(
        [
            Event(
                kind="other",
                job="delays",
                at=NIGHT + number * step,
                who="coordinator a" if number < EVENTS / 2 else "coordinator b",
                what=f"event {number} | of the night",
                why="for a reason",
            )
            for number in range(EVENTS)
        ]
    )
    yield played
    played.close()


def columns_with(page: Page) -> list[int]:
    """The columns of the plot in which there is something of the line's colour."""
    found: list[int] = page.evaluate(
        """() => {
            const canvas = document.querySelector('.plot canvas');
            const context = canvas.getContext('2d');
            const probe = document.createElement('canvas').getContext('2d');
            probe.fillStyle = getComputedStyle(canvas).getPropertyValue('--accent').trim();
            probe.fillRect(0, 0, 1, 1);
            const [red, green, blue] = probe.getImageData(0, 0, 1, 1).data;
            const {data, width, height} = context.getImageData(0, 0, canvas.width, canvas.height);
            const columns = new Set();
            for (let at = 0; at < data.length; at += 4)
                if (data[at] === red && data[at + 1] === green && data[at + 2] === blue && data[at + 3] > 200)
                    columns.add((at / 4) % width);
            return [...columns].sort((one, other) => one - other);
        }"""
    )
    return found


def test_three_in_the_morning_is_found_and_can_be_passed_on(night: Played, visit: Visit) -> None:
    """Over a connection that isn't secure, as between two machines: there is no clipboard."""
    page = visit(night.url.replace("127.0.0.1", NAMED) + "#/jobs/delays/events", timezone_id="Europe/Berlin")
    assert page.evaluate("isSecureContext") is False
    plot = page.locator(".plot canvas")
    expect(plot).to_be_visible()
    page.wait_for_timeout(300)
    columns = columns_with(page)
    gaps = [(one, other) for one, other in itertools.pairwise(columns) if other - one > 20]
    assert len(gaps) == 1, gaps  # of three hours, where nothing was known
    assert (gaps[0][1] - gaps[0][0]) / (columns[-1] - columns[0]) == pytest.approx(0.3, abs=0.02)

    box = page.locator(".plot .u-over").bounding_box()
    assert box is not None
    offset = page.locator(".plot .u-over").evaluate("(over) => over.offsetLeft * devicePixelRatio")
    x = [box["x"] + at - offset for at in (gaps[0][1], gaps[0][1] + 20)]
    y = box["y"] + box["height"] / 2
    page.mouse.move(x[0], y)
    page.mouse.down()
    page.mouse.move(x[1], y, steps=4)
    page.mouse.up()
    page.wait_for_url("**from=*to=*")
    query = page.evaluate("Object.fromEntries(new URLSearchParams(location.hash.split('?')[1]))")
    begin, end = (datetime.fromisoformat(query[name]).timestamp() for name in ("from", "to"))
    assert begin == pytest.approx(NIGHT + 6 * HOUR, abs=0.1 * HOUR)
    assert query["from"].endswith("Z")
    known = [each for each in night.coordinator.events("delays", 10_000) if begin <= each.at <= end]
    assert 50 < len(known) < 500
    rows = page.locator(".log [data-row]")
    expect(rows).to_have_count(1)  # as they repeat each other
    page.get_by_label("fold repeats").uncheck()
    expect(rows).to_have_count(len(known))
    expect(rows.first).to_contain_text("coordinator b")

    link = page.locator(f"[data-row='{known[3].id}']").get_by_role("link").first
    link.click()
    expect(page.locator(".picked")).to_contain_text("Europe/Berlin")
    expect(page.locator(".picked")).to_contain_text("UTC")
    again = visit(page.url)
    expect(again.locator(".log .selected")).to_have_attribute("data-row", str(known[3].id))
    alone = visit(f"{night.url}#/jobs/delays/events?event={known[3].id}&to=2020-01-01T00:00:00Z")
    expect(alone.locator(".picked")).to_contain_text(known[3].what)

    page.get_by_role("button", name="as Markdown").click()
    text = page.get_by_label("the events as Markdown").input_value().splitlines()
    assert len([line for line in text if "event " in line]) == len(known)
    assert text[4] == (
        f"| {datetime.fromtimestamp(known[0].at, UTC):%Y-%m-%d %H:%M:%S} | coordinator b | "
        f"event {known[0].what.split()[1]} \\| of the night: for a reason |"
    )
    selected = (
        "(() => { const of = document.activeElement; return of.value.slice(of.selectionStart, of.selectionEnd) })()"
    )
    assert page.evaluate(selected).splitlines() == text


def test_a_moment_is_typed_in_the_zone_of_the_page_and_is_utc_in_the_address(night: Played, visit: Visit) -> None:
    page = visit(f"{night.url}#/jobs/delays/events", timezone_id="Europe/Berlin")
    field = page.get_by_label("from, in Europe/Berlin")
    field.fill("2026-11-25T03:00:00")
    field.blur()
    page.wait_for_url("**from=2026-11-25T02%3A00%3A00Z*")
    expect(field).to_have_value("2026-11-25T03:00")
