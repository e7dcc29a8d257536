"""What ran when, what a change moves or has moved, and what a drain emitted early."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from playwright.sync_api import Locator, Page, Route, expect

from anabranch.config import EmbeddedSettings, Settings, SystemsSettings
from anabranch.coordinator.api.operations import Operations
from anabranch.model.moves import StageMoves
from anabranch.protocol.commands import ScaleRequest
from anabranch.systems.records import RECORD_SCHEMA
from anabranch.systems.systems import Systems
from tests.dashboard.conftest import SLOWEST, Visit, settled
from tests.dashboard.played import FACTOR, Container, Played

expect.set_options(timeout=SLOWEST)
BEGIN = datetime(2026, 11, 26, 2, 0, tzinfo=UTC).timestamp()
SPAN = (BEGIN, BEGIN + 3_600)
ADDRESS = "#/jobs/delays/lanes?view=timeline&from=2026-11-26T02%3A00%3A00Z&to=2026-11-26T03%3A00%3A00Z"


class Clock:
    """The coordinator's, set by a test."""

    def __init__(self) -> None:
        self.at = BEGIN

    def __call__(self) -> float:
        return self.at


def bars(row: Locator) -> list[tuple[float, float]]:
    """Where the bars of a row begin and end, in percent of the axis."""
    drawn = row.locator("svg.runs rect").evaluate_all(
        "(all) => all.map((each) => [each.getAttribute('x'), each.getAttribute('width')].map(parseFloat))"
    )
    return [(x, x + width) for x, width in drawn]


def percent(at: float) -> float:
    return 100 * (at - SPAN[0]) / (SPAN[1] - SPAN[0])


def test_lanes_are_drawn_when_they_ran_and_out_of_which_they_came(tmp_path: Path, visit: Visit) -> None:
    clock = Clock()
    played = Played(tmp_path, now=clock)
    try:
        former = played.lanes
        clock.at = BEGIN + 600
        played.fields = {0: {"number": 2, "trouble": "ValueError: no number"}}
        played.beat()
        clock.at = BEGIN + 1_800
        played.coordinator.call(Operations.scale, "delays", ScaleRequest(factor=2 * FACTOR))
        played.fields = {}
        played.until_running()
        clock.at = BEGIN + 3_000
        played.beat()
        page = visit(f"{played.url}{ADDRESS}", timezone_id="Asia/Kolkata")
        times = {row["id"]: row for row in played.coordinator.lane_times("delays", *SPAN).lanes.records()}
        assert len(times) == 4
        expect(page.locator("[data-row]")).to_have_count(len(times))
        for name, known in times.items():
            row = page.locator(f"[data-row='{name}']")
            wanted = [(percent(begin), percent(SPAN[1] if end is None else end)) for begin, end in known["runs"]]
            assert bars(row) == [pytest.approx(each, abs=0.05) for each in wanted]
            for before in known["predecessors"]:
                expect(row.get_by_role("link", name=before)).to_be_visible()
        first = page.locator(f"[data-row='{former[0].id}']")
        expect(first).to_contain_text("closed")
        # the picture's cross, its words, and the columns beside it say the same, in the zone of the page
        cross = first.locator("svg.runs text.retried")
        assert float(str(cross.get_attribute("x")).rstrip("%")) == pytest.approx(percent(BEGIN + 600), abs=0.05)
        said = str(first.get_by_role("img").get_attribute("aria-label"))
        assert "ran from 2026-11-26 07:30:00 to 2026-11-26 08:00:00" in said
        assert "07:40:00 failed and is tried again, attempt 2: ValueError: no number" in said
        expect(first).to_contain_text("2026-11-26 08:00:00")
        # the change is a line through all of them, and a link in the axis
        line = first.locator("svg.runs line.change")
        assert float(str(line.get_attribute("x1")).rstrip("%")) == pytest.approx(percent(BEGIN + 1_800), abs=0.05)
        page.locator("svg.axis a").click()
        expect(page.locator("main")).to_contain_text(f"factor {FACTOR} → {2 * FACTOR}")
        page.get_by_role("link", name="its lanes through time").click()
        expect(page.locator("[data-row]")).to_have_count(len(times))
    finally:
        played.close()


def test_a_span_has_the_lanes_that_ran_in_it(tmp_path: Path, visit: Visit) -> None:
    clock = Clock()
    played = Played(tmp_path, now=clock)
    try:
        former = {lane.id for lane in played.lanes}
        clock.at = BEGIN + 600
        played.coordinator.call(Operations.scale, "delays", ScaleRequest(factor=2 * FACTOR))
        played.until_running()
        clock.at = BEGIN + 7_200
        page = visit(f"{played.url}#/jobs/delays/lanes")
        settled(page)
        page.keyboard.press("t")  # the picture in place of the table
        page.get_by_label("span").select_option("1 h")
        present = {lane.id for lane in played.lanes}
        expect(page.locator("[data-row]")).to_have_count(len(present))
        assert {str(row.get_attribute("data-row")) for row in page.locator("[data-row]").all()} == present
        assert present.isdisjoint(former)
        page.get_by_label("span").select_option("6 h")
        expect(page.locator("[data-row]")).to_have_count(len(present | former))
    finally:
        played.close()


def test_days_begin_at_midnight_where_the_reader_is(tmp_path: Path, visit: Visit) -> None:
    """In a week in which clocks go back; and in UTC once that is chosen."""
    begin, end = (datetime(2026, *day, tzinfo=UTC) for day in ((10, 28), (11, 4)))
    clock = Clock()
    clock.at = begin.timestamp()
    played = Played(tmp_path, now=clock)
    try:
        span = f"from={begin:%Y-%m-%d}T00%3A00%3A00Z&to={end:%Y-%m-%d}T00%3A00%3A00Z"
        page = visit(f"{played.url}#/jobs/delays/lanes?view=timeline&{span}", timezone_id="America/New_York")
        for zone, key in (("America/New_York", ""), ("UTC", "u")):
            expect(page.locator("svg.axis text").first).to_be_visible()
            if key:
                page.keyboard.press(key)
            expect(page.locator("main")).to_contain_text(f"times in {zone}")
            drawn = page.locator("svg.axis g").evaluate_all(
                "(all) => all.map((each) => [parseFloat(each.querySelector('line').getAttribute('x1')),"
                " each.querySelector('text').textContent])"
            )
            assert len(drawn) >= 3
            for place, label in drawn:
                local = (begin + place / 100 * (end - begin)).astimezone(ZoneInfo(zone))
                nearest = (local + timedelta(minutes=1)).replace(minute=0, second=0, microsecond=0)
                assert (nearest.hour, f"{nearest:%m-%d}") == (0, label)
    finally:
        played.close()


def rows_of(stage: StageMoves) -> list[list[str]]:
    names = {-1: "none: it is new", **dict(enumerate(stage.seats))}
    return [[stage.partitions[at], names[old], names[new], str(count)] for at, old, new, count in stage.moves]


def shown(page: Page) -> list[list[str]]:
    return [row.locator("td").all_inner_texts() for row in page.locator("[data-row]").all()]


def pixels(page: Page, row: int, column: int) -> tuple[str, str]:
    """The colours in the middle and on the upper edge of a cell of the matrix: those of six partitions are so large."""
    return page.evaluate(  # type: ignore[no-any-return]
        """([row, column]) => {
            const canvas = document.querySelector('.canvas canvas');
            const context = canvas.getContext('2d');
            const at = (x, y) => '#' + [...context.getImageData(x * devicePixelRatio, y * devicePixelRatio, 1, 1).data]
                .slice(0, 3).map((each) => each.toString(16).padStart(2, '0')).join('');
            const [x, y] = [132 + 72 * column, 44 + 22 * row];
            return [at(x + 36, y + 10), at(x + 36, y + 1)];
        }""",
        [row, column],
    )


def test_what_a_plan_moves_is_laid_over_the_matrix_and_nothing_is_done(played: Played, visit: Visit) -> None:
    wanted = ScaleRequest(containers=3, dry=True, brief=True, moves=True)
    (stage,) = played.coordinator.call(Operations.scale, "delays", wanted).moves
    assert len(stage.moves) > 0
    page = visit(f"{played.url}#/jobs/delays/changes/new?kind=scale&containers=3", color_scheme="light")
    page.get_by_role("link", name="matrix of moves").click()
    total = sum(count for *_, count in stage.moves)
    expect(page.locator("main")).to_contain_text(f"{total} buckets of {len(stage.partitions) * stage.buckets} move")
    style = "getComputedStyle(document.documentElement).getPropertyValue"
    arrives, leaves = (page.evaluate(f"{style}('{name}').trim()") for name in ("--accent", "--orange"))
    box = page.get_by_role("application")
    expect(box).to_be_visible()
    page.wait_for_timeout(300)  # a frame
    for partition, old, new, _ in stage.moves:
        middle, edge = pixels(page, partition, int(stage.seats[new]))
        assert middle == edge == arrives
        middle, edge = pixels(page, partition, int(stage.seats[old]))
        assert (edge, middle != leaves) == (leaves, True)
    box.focus()
    partition, old, new, count = stage.moves[0]
    for _ in range(partition):
        page.keyboard.press("ArrowDown")
    for _ in range(int(stage.seats[new])):
        page.keyboard.press("ArrowRight")
    buckets = f"{count} bucket{'s' * (count > 1)}"
    expect(page.locator("aside")).to_contain_text(f"{buckets} from seat {stage.seats[old]}")
    page.get_by_label("show as").select_option("table")
    expect(page.locator("[data-row]")).to_have_count(len(stage.moves))
    assert shown(page) == rows_of(stage)
    expect(page.get_by_label("the same on the command line")).to_have_value(
        "anabranch plan scale delays --containers 3"
    )
    assert played.coordinator.status("delays").generation == 1


def test_what_a_change_has_moved_is_shown_afterwards(played: Played, visit: Visit) -> None:
    page = visit(f"{played.url}#/jobs/delays/matrix?by=moves&view=table")
    expect(page.locator("main")).to_contain_text("nothing was before generation 1")
    played.coordinator.call(Operations.scale, "delays", ScaleRequest(containers=1))
    played.until_running()
    settled(page, "#/jobs/delays/changes")
    page.locator("[data-row]").first.get_by_role("link").click()
    page.get_by_role("link", name="what it moved").click()
    (stage,) = played.coordinator.moves("delays").stages
    expect(page.locator("main")).to_contain_text("generation 2 of deployment 1 began, after generation 1")
    page.get_by_label("show as").select_option("table")
    expect(page.locator("[data-row]")).to_have_count(len(stage.moves))
    assert shown(page) == rows_of(stage)
    assert {row[1:3] == ["1", "0"] for row in shown(page)} == {True}


def test_what_the_last_change_moved_is_shown_with_no_other_generation(played: Played, visit: Visit) -> None:
    page = visit(f"{played.url}#/jobs/delays/matrix?by=moves")
    expect(page.locator("main")).to_contain_text("nothing was before generation 1")

    def scaled(containers: int) -> None:
        played.coordinator.call(Operations.scale, "delays", ScaleRequest(containers=containers))
        played.until_running()

    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    scaled(1)
    expect(page.locator("main")).to_contain_text("generation 2 of deployment 1 began")
    page.route("**/moves?*", hold)
    with page.expect_request("**/moves?*"):
        scaled(2)
    expect(page.locator("main")).not_to_contain_text("generation 2 of deployment 1 began")
    held[0].continue_()
    expect(page.locator("main")).to_contain_text("generation 3 of deployment 1 began")


def emitted(folder: Path, *values: bytes) -> Systems:
    systems = Systems(Settings(systems=SystemsSettings(embedded=EmbeddedSettings(root=folder))), "delays")
    system = systems.named("embedded")
    system.create("late-flights", 1)
    at = datetime(2026, 11, 26, tzinfo=UTC)
    rows: list[dict[str, Any]] = [{"key": b"EWR", "value": each, "headers": [], "timestamp": at} for each in values]
    with closing(system.appender("late-flights")) as appender:
        appender.append(pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA))
    return systems


def test_what_a_drain_emitted_early_is_shown_and_foretold(tmp_path: Path, visit: Visit) -> None:
    cut = b'{"dest": "EWR", "delay": 41, "drained": true}'
    systems = emitted(tmp_path / "streams", b'{"dest": "EWR", "delay": 12}', cut, b'{"dest": "<b>", "drained": false}')
    played = Played(tmp_path, systems=systems)
    try:
        played.fields = {0: {"windows": 1_200}, 1: {"windows": 34}}
        played.beat()
        page = visit(f"{played.url}#/jobs/delays/changes/new?kind=drain")
        expect(page.locator("main .facts").first).to_contain_text("1,234 rows of state")
        settled(page, "#/jobs/delays/drain")
        page.get_by_role("button", name="what came out early").click()
        expect(page.locator("main")).to_contain_text("1 row of the newest 3 records")
        rows = page.locator(".letters li")
        expect(rows).to_have_count(1)
        expect(rows.first).to_contain_text(cut.decode())
        expect(rows.first).to_contain_text("late-flights/0, offset 1")
        assert page.url.endswith("#/jobs/delays/drain?early=1")
    finally:
        played.close()


def test_a_container_links_to_its_log_whatever_it_says_of_itself(tmp_path: Path, visit: Visit) -> None:
    links = {
        "log": "https://logs.example/?q={host}+{pid}",
        "spark": "http://{host}:4040",
        "odd": "javascript:alert({pid})",
    }
    played = Played(tmp_path, links=links)
    try:
        lost = played.containers.pop().me.container
        played.coordinator.fence(lost, "out of order")
        for fence in played.coordinator.fences():
            played.coordinator.fenced(fence.lane)
        played.containers.append(Container(played.coordinator, "delays", "1", host="evil.example/?x=&y=#z"))
        page = visit(f"{played.url}#/jobs/delays/containers")
        row = page.locator(f"[data-row='{played.containers[0].me.container}']")
        expect(row.get_by_role("link", name="log")).to_have_attribute("href", "https://logs.example/?q=host-0+100")
        expect(row.get_by_role("link", name="spark")).to_have_attribute("href", "http://host-0:4040")
        hostile = page.locator(f"[data-row='{played.containers[1].me.container}']").get_by_role("link", name="log")
        expect(hostile).to_have_attribute("href", "https://logs.example/?q=evil.example%2F%3Fx%3D%26y%3D%23z+101")
        former = page.locator(f"[data-row='{lost}']").get_by_role("link", name="log")
        expect(former).to_have_attribute("href", "https://logs.example/?q=host-1+101")  # where one looks for the cause
        assert hostile.get_attribute("rel") == "noopener noreferrer"
        expect(page.get_by_role("link", name="odd")).to_have_count(0)
        lane = next(each for each in played.lanes if each.seat == "0")
        settled(page, f"#/jobs/delays/lanes/{lane.id}")
        expect(page.get_by_role("link", name="log")).to_have_attribute("href", "https://logs.example/?q=host-0+100")
    finally:
        played.close()
