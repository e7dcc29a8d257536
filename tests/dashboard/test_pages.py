"""What a browser shows of a job, and what it may do while it shows that. Chromium; other browsers aren't driven."""

from __future__ import annotations

import asyncio
import contextlib
import csv
import functools
import random
import re
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import pytest
from h11 import LocalProtocolError
from playwright.sync_api import Page, Request, expect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from anabranch.protocol.commands import ScaleRequest
from tests.dashboard import played as playing
from tests.dashboard.conftest import PAGES, SLOWEST, Visit, settled, until
from tests.dashboard.played import EVENT_TIME, FACTOR, Container, Played

expect.set_options(timeout=SLOWEST)
AXE = Path(__file__).parents[2] / "dashboard" / "node_modules" / "axe-core" / "axe.min.js"


def read_on(played: Played, page: Page) -> None:
    """The containers beat, and the page asks for it."""
    played.beat()
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")


def test_nothing_leaves_the_coordinator_and_the_policy_holds(played: Played, visit: Visit) -> None:
    page = visit("about:blank")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(played.url)
    for address in PAGES:
        settled(page, address)
    origin = urlsplit(played.url).netloc
    assert {urlsplit(url).netloc for url in asked if not url.startswith("data:")} == {origin}
    assert any("/jobs/delays/model?" in url for url in asked)
    whole = ("/jobs", "/jobs/delays")  # megabytes, if there are thousands of tasks
    assert not [url for url in asked if urlsplit(url).path.endswith(whole)]
    assert page.evaluate("window.violations") == []


def test_the_pages_of_a_job_that_is_not_there_say_so(played: Played, visit: Visit) -> None:
    """And don't load forever."""
    page = visit(played.url)
    for address in PAGES:
        if "/delays" in address:
            settled(page, address.replace("delays", "delay"))
            assert "there is no job 'delay'" in page.locator("main").inner_text(), address


@pytest.mark.parametrize("fails", ["**/jobs/delays/live", "**/jobs/delays/**"])
def test_a_page_whose_parts_fail_says_so(played: Played, visit: Visit, fails: str) -> None:
    page = visit("about:blank")
    page.route(fails, lambda route: route.fulfill(status=500, json={"error": "the store broke", "cure": "mend it"}))
    page.goto(played.url)
    for address in PAGES:
        settled(page, address)
        if "/delays" in address and "/changes" not in address and fails.endswith("**"):
            assert "the store broke" in page.locator("main").inner_text(), address


def test_a_page_without_the_program_for_plots_says_so_and_has_all_else(played: Played, visit: Visit) -> None:
    """As after an upgrade of the coordinator, while the page was open."""
    page = visit("about:blank")
    page.route("**/uplot-*.js", lambda route: route.fulfill(status=404))
    page.goto(f"{played.url}#/jobs/delays")
    settled(page)
    said = page.get_by_text("The program that draws it couldn't be loaded")
    expect(said).to_have_count(2)
    page.unroute("**/uplot-*.js")
    page.reload()
    expect(page.locator(".plot canvas")).to_have_count(2)
    expect(said).to_have_count(0)


def test_the_language_of_a_browser_may_be_invalid(played: Played, visit: Visit) -> None:
    """Chromium's is "en-US@posix" if it is started with LANG=C.UTF-8, and some builds refuse that as a language tag."""
    page = visit("about:blank")
    page.add_init_script(
        "Object.defineProperty(Navigator.prototype, 'language', { get: () => 'no language', configurable: true })"
    )
    page.goto(played.url)
    for address in PAGES:
        settled(page, address)


def test_the_policy_is_one_that_refuses(played: Played, visit: Visit) -> None:
    """Otherwise the test above would say nothing."""
    page = visit(played.url)
    page.evaluate("document.body.setAttribute('style', 'color: red')")
    page.evaluate("const image = new Image(); image.src = 'http://127.0.0.1:9/x.png'; document.body.append(image)")
    until(lambda: page.evaluate("window.violations.length") >= 2)
    refused = page.evaluate(
        "(() => { try { document.body.innerHTML = '<p>'; } catch (error) { return error.name } })()"
    )
    assert refused == "TypeError"


def test_the_reasoning_of_the_autosizer(tmp_path: Path, visit: Visit) -> None:
    played = Played(tmp_path, settings={"job": {"autoscale": {"max": 8, "cooldown": "90 seconds"}}})
    try:
        page = visit(f"{played.url}#/jobs/delays/sizing")
        facts = page.locator("dl").first
        expect(facts).to_contain_text("factor 1 to 8, functions busy at most 70 %, 1 min 30 s between changes")
        expect(facts).to_contain_text(re.compile(r"autosizer\s*lane 0-00000001: "))
    finally:
        played.close()


def test_what_each_factor_would_give_can_be_planned(played: Played, visit: Visit) -> None:
    busy = {"span": 30.0, "working": 0.9, "busy": 0.95, "arriving": 10.0, "ends_known": True}
    played.fields = {0: busy, 1: busy}
    played.beat()
    page = visit(f"{played.url}#/jobs/delays/sizing")
    table = page.get_by_role("table", name="What each factor would give")
    expect(table.get_by_role("columnheader", name="limited by")).to_be_visible()
    expect(page.get_by_role("region", name="What each factor would give").first).to_contain_text("the longest wait")
    rows = table.locator("[data-row]")
    known = played.coordinator.sizing("delays").forecasts
    expect(rows).to_have_count(len(known))
    for each in known:
        row = table.locator(f"[data-row='{each.factor}']")
        expect(row).to_contain_text(f"{each.utilisation * 100:.0f} %")
        expect(row).to_contain_text("as it is" if each.factor == FACTOR else "plan it")
    table.locator(f"[data-row='{2 * FACTOR}']").get_by_role("link", name="plan it").click()
    page.wait_for_url(f"**/changes/new?kind=scale&factor={2 * FACTOR}")


def test_each_page_is_reached_under_a_prefix_that_a_proxy_takes_off(tmp_path: Path, visit: Visit) -> None:
    played = Played(tmp_path, prefix="/a/b")
    try:
        page = visit(played.url.removesuffix("/ui/") + "/")
        expect(page.get_by_role("link", name="delays")).to_be_visible()
        page.goto(f"{played.url.removesuffix('/')}#/jobs/delays/lanes")
        expect(page.locator("[data-row]")).to_have_count(2)
        page.reload()
        expect(page.locator("[data-row]")).to_have_count(2)
    finally:
        played.close()


def test_a_job_is_found_and_its_figures_are_shown(played: Played, visit: Visit) -> None:
    page = visit(played.url)
    expect(page.locator("[data-row='delays'] time")).to_have_count(1)  # since when it is running
    page.get_by_role("link", name="delays").click()
    expect(page.locator(".figures")).to_contain_text("6,000")  # six partitions, a thousand offsets each
    expect(page.locator(".figures")).to_contain_text("1,024/s")
    expect(page.locator("header.top")).to_contain_text("running")
    page.get_by_role("navigation").get_by_role("link", name="Lanes").click()
    expect(page.locator("[data-row]")).to_have_count(2)
    for lane in played.lanes:
        expect(page.locator(f"[data-row='{lane.id}']")).to_contain_text("82 %")


def test_who_holds_event_time_back_is_named(played: Played, visit: Visit) -> None:
    holder = "embedded/flights/4"
    played.fields = {0: {"held_by": holder, "watermark": EVENT_TIME - 2_460_000}}
    played.beat()
    page = visit(f"{played.url}#/jobs/delays/partitions?wsort=watermark")
    row = page.locator("[data-row]").first
    expect(row).to_contain_text(played.lanes[0].id)
    expect(row).to_contain_text(holder)
    expect(row).to_contain_text("41 min")
    played.fields[0]["watermark"] = None
    read_on(played, page)
    expect(page.locator(f"[data-row='{played.lanes[0].id}']").first).to_contain_text("nothing read yet")


def test_each_partition_has_a_time_of_its_own_and_idle_ones_hold_nothing(played: Played, visit: Visit) -> None:
    its = [sorted({str(ssp.whole) for ssp in lane.ssps}) for lane in played.lanes]
    late, idle = its[0][0], its[1][0]
    times = {ssp: EVENT_TIME for ssps in its for ssp in ssps} | {late: EVENT_TIME - 2_460_000, idle: 0}
    page = visit(f"{played.url}#/jobs/delays/partitions?by=time", timezone_id="UTC")
    rows = page.locator("section[aria-label='Partitions'] [data-row]")
    expect(rows.first).to_contain_text("not known")
    played.fields = {at: {"times": {ssp: times[ssp] for ssp in ssps}} for at, ssps in enumerate(its)}
    played.fields[1]["idle"] = (idle,)
    read_on(played, page)
    expect(rows.nth(0)).to_contain_text(idle)
    expect(rows.nth(0)).to_contain_text("idle")
    expect(rows.nth(1)).to_contain_text(late)
    shown = datetime.fromtimestamp(times[late] / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    expect(rows.nth(1)).to_contain_text(shown)
    expect(page.locator("main")).to_contain_text(f"1 of {len(times) - 1} hold event time within a minute")


def test_a_filter_of_partitions_begins_with_their_first(
    tmp_path: Path, visit: Visit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(playing, "start_request", functools.partial(playing.start_request, partitions=1_100))
    played = Played(tmp_path)
    try:
        page = visit(f"{played.url}#/jobs/delays/partitions?from=1000")
        panel = page.locator("section[aria-label='Partitions']")
        rows = panel.locator("[data-row]")
        expect(panel.get_by_text("100 partitions", exact=True)).to_be_visible()
        lane = played.lanes[0].id
        panel.get_by_role("combobox").nth(1).select_option(lane)
        expect(rows.first).to_contain_text(lane)
        assert "from=" not in page.url
        settled(page, f"#/jobs/delays/partitions?from=1000&lane={lane}")
        expect(panel).to_contain_text("None is on this page: there are 5")
        page.get_by_role("button", name="previous 500").click()
        expect(rows.first).to_contain_text(lane)
        settled(page, "#/jobs/delays/partitions?lane=0-ffffffff")
        expect(panel).to_contain_text("No partition fits the filters")
    finally:
        played.close()


def test_a_lane_says_what_it_waits_for_and_that_it_was_begun_again_only_if_it_was(played: Played, visit: Visit) -> None:
    waiting = {"awaits": "kafka at broker:9092", "awaits_since": 1.0, "trouble": "connection refused", "number": 1}
    played.fields = {0: waiting, 1: {"trouble": "no number", "number": 2}}
    played.beat()
    first, second = (lane.id for lane in played.lanes)
    page = visit(f"{played.url}#/jobs/delays/lanes/{first}")
    problem = page.locator(".problem")
    expect(problem).to_contain_text("waits for kafka at broker:9092: connection refused")
    expect(problem).not_to_contain_text("begun again")
    settled(page, f"#/jobs/delays/lanes/{second}")
    expect(problem).to_contain_text("It was begun again: attempt 2")
    expect(problem).not_to_contain_text("waits for")
    settled(page, "#/jobs/delays/lanes")
    expect(page.locator(f"[data-row='{first}']")).to_contain_text("waits for kafka at broker:9092: connection refused")
    expect(page.locator(f"[data-row='{second}']")).not_to_contain_text("waits for")


def test_a_lane_has_positions_while_it_is_open_and_then_followers(played: Played, visit: Visit) -> None:
    lane = played.lanes[0]
    page = visit(f"{played.url}#/jobs/delays/lanes/{lane.id}")
    positions = page.locator("section[aria-label='Positions'] [data-row]")
    expect(positions).to_have_count(len({ssp.whole for ssp in lane.ssps}))
    expect(positions.first).to_contain_text(f"{10 * played.batch}")
    played.coordinator.scale("delays", ScaleRequest(factor=8))
    played.until_running()
    followers = [each.id for each in played.lanes if lane.id in each.predecessors]
    assert followers
    page.reload()
    for name in followers:
        expect(page.locator("dt:text-is('followed by') + dd")).to_contain_text(name)
    expect(page.locator("section[aria-label='Positions']")).to_have_count(0)


def test_a_refresh_moves_nothing_that_a_reader_has_set(played: Played, visit: Visit) -> None:
    page = visit(f"{played.url}#/jobs/delays/lanes?sort=-id", viewport={"width": 900, "height": 260})
    settled(page)
    lane = played.lanes[0].id
    page.get_by_role("searchbox").first.fill("0000")
    page.evaluate(
        """(lane) => {
            const text = document.querySelector(`[data-row="${lane}"] .text`).firstChild;
            getSelection().setBaseAndExtent(text, 0, text, 4);
            scrollTo(0, 120);
            document.querySelector(`[data-row="${lane}"]`).marked = true;
        }""",
        lane,
    )
    held = """() => ({
        scrolled: scrollY, selected: String(getSelection()), focus: document.activeElement.className,
        typed: document.querySelector('.find').value,
        marked: [...document.querySelectorAll('[data-row]')].find((each) => each.marked)?.dataset.row,
        order: [...document.querySelectorAll('[data-row]')].map((each) => each.dataset.row),
    })"""
    page.locator(".find").focus(timeout=SLOWEST)
    page.evaluate("scrollTo(0, 120)")
    before = page.evaluate(held)
    assert before["selected"] != "" or before["typed"] == "0000"
    for _ in range(5):
        read_on(played, page)
        expect(page.locator(f"[data-row='{lane}']")).to_contain_text(
            f" {played.batch}" if played.batch > 999 else str(played.batch)
        )
        assert page.evaluate(held) == before
    assert before["marked"] == lane
    assert before["order"] == sorted(before["order"], reverse=True)


def test_rows_that_change_places_keep_who_has_the_focus(played: Played, visit: Visit) -> None:
    """Over thirty refreshes in which the lanes overtake each other."""
    page = visit(f"{played.url}#/jobs/delays/lanes?sort=-lag")
    settled(page)
    first, second = (lane.id for lane in played.lanes)
    page.locator(f"[data-row='{first}'] a").focus()
    for turn in range(30):
        names = [sorted({str(ssp.whole) for ssp in lane.ssps}) for lane in played.lanes]
        ends = (dict.fromkeys(its, 90000 + turn) for its in names)
        played.fields = {turn % 2: {"ends": list(ends)[turn % 2]}}
        read_on(played, page)
        order = [first, second] if turn % 2 == 0 else [second, first]
        expect(page.locator("[data-row]").first).to_have_attribute("data-row", order[0])
        assert page.evaluate("document.activeElement.closest('[data-row]')?.dataset.row") == first


def test_whatever_is_chosen_is_the_same_in_another_browser(played: Played, visit: Visit) -> None:
    """Of generated filters; and back and forth through them."""
    lane, other = (each.id for each in played.lanes)
    dice = random.Random(5)
    choices: dict[str, dict[str, list[str]]] = {
        "lanes": {
            "view": ["timeline"],
            "span": ["6 h"],
            "find": [lane[-4:], "nothing"],
            "sort": ["-id", "seat", "-lag"],
            "seat": ["0", "1"],
        },
        "partitions": {"by": ["ssp", "lane"], "find": ["flights/3"], "lane": [lane, other], "wsort": ["-lane"]},
        "matrix": {"view": ["table"], "by": ["busy", "moves"], "find": ["Partition_1"], "sort": ["-seat"]},
        "events": {"kind": ["state", "seat"], "find": ["running", "lane"], "to": ["2026-01-01T00:00:00Z"]},
        "changes/new": {"kind": ["scale", "rewind", "stop"], "factor": ["8", "16"], "containers": ["3"], "now": ["1"]},
    }
    addresses = []
    for name, filters in choices.items():
        for _ in range(2):
            query = {each: dice.choice(values) for each, values in filters.items() if dice.random() < 0.7}
            addresses.append(f"#/jobs/delays/{name}{'?' if query else ''}{urlencode(query)}")
    page = visit(f"{played.url}#/")
    under_way: set[Request] = set()
    page.on("request", lambda each: under_way.update({each}))  # a builtin function can't be given
    for event in ("requestfinished", "requestfailed"):
        page.on(event, lambda each: under_way.difference_update({each}))  # type: ignore[call-overload]
    shown = []
    for address in addresses:
        settled(page, address)
        shown.append(_at_rest(page, under_way))
    again = visit("about:blank")
    for address, before in zip(addresses, shown, strict=True):
        again.goto("about:blank")
        again.goto(f"{played.url}{address}")
        settled(again)
        until(lambda: _controls(again) == before)  # noqa: B023
    for address, before in list(zip(addresses, shown, strict=True))[-2::-1]:
        page.go_back()
        until(lambda: page.url.endswith(address) and _controls(page) == before)  # noqa: B023
    page.go_forward()
    until(lambda: page.url.endswith(addresses[1]) and _controls(page) == shown[1])


def _at_rest(page: Page, under_way: set[Request]) -> list[str]:
    """What :func:`_controls` gives once all of the page has come: nothing is asked for, and it stays as it is."""
    seen, same = _controls(page), 0
    for _ in range(SLOWEST // 100):
        page.wait_for_timeout(100)
        before, seen = seen, _controls(page)
        waits = bool(under_way) or page.get_by_text("planning …").count() > 0
        same = same + 1 if len(seen) > 1 and seen == before and not waits else 0
        if same == 3:
            break
    return seen


def _controls(page: Page) -> list[str]:
    """What is chosen and which rows there are. The ids of lanes that a plan would start are others each time."""
    found: list[str] = page.evaluate(
        """() => [
            document.querySelector('main h1')?.textContent,
            ...[...document.querySelectorAll('main :is(select, input)')].map((each) =>
                each.type === 'checkbox' ? String(each.checked) : each.value),
            ...[...document.querySelectorAll('main [data-row]')].map((each) =>
                each.dataset.row.replace(/^false .*/, 'new')),
            ...[...document.querySelectorAll('main [aria-sort]')].map((each) => each.textContent),
        ]"""
    )
    return found


def test_what_is_shown_is_in_the_address(played: Played, visit: Visit) -> None:
    page = visit(f"{played.url}#/jobs/delays/lanes")
    lanes = sorted(lane.id for lane in played.lanes)
    settled(page)
    page.get_by_role("button", name="lane").click()
    page.get_by_role("button", name="lane").click()
    page.get_by_role("searchbox").first.fill(lanes[0])
    expect(page.locator("[data-row]")).to_have_count(1)
    address = page.url
    assert "find=" in address
    again = visit(address)
    expect(again.locator("[data-row]")).to_have_count(1)
    expect(again.get_by_role("searchbox").first).to_have_value(lanes[0])
    assert again.locator("th[aria-sort]").get_attribute("aria-sort") == page.locator("th[aria-sort]").get_attribute(
        "aria-sort"
    )
    page.locator(f"[data-row='{lanes[0]}'] a").first.click()
    expect(page.locator("h1")).to_contain_text(lanes[0])
    page.go_back()
    expect(page.locator("[data-row]")).to_have_count(1)
    assert page.url == address


@pytest.mark.parametrize(
    ("zone", "first", "second"),
    [
        ("Europe/Berlin", "2026-10-25 02:30:00 +02:00", "2026-10-25 02:30:00 +01:00"),
        ("Asia/Kolkata", "2026-10-25 06:00:00 +05:30", "2026-10-25 07:00:00 +05:30"),
        ("UTC", "2026-10-25 00:30:00 +00:00", "2026-10-25 01:30:00 +00:00"),
    ],
)
def test_times_are_in_the_zone_that_is_named(played: Played, visit: Visit, zone: str, first: str, second: str) -> None:
    """The night in which clocks go back: two hours have one name."""
    night = datetime(2026, 10, 25, 0, 30, tzinfo=UTC).timestamp() * 1000
    played.fields = {0: {"watermark": int(night)}, 1: {"watermark": int(night) + 3_600_000}}
    played.beat()
    page = visit(f"{played.url}#/jobs/delays/partitions", timezone_id=zone)
    for lane, shown in zip(played.lanes, (first, second), strict=True):
        expect(page.locator(f"[data-row='{lane.id}']").first).to_contain_text(shown)
    expect(page.locator("main")).to_contain_text(re.compile(zone.replace("Kolkata", "(Kolkata|Calcutta)")))


def test_the_time_for_which_the_machine_slept_counts(played: Played, visit: Visit) -> None:
    """The browser's own clock stands still meanwhile, and then nothing comes at first."""
    page = visit("about:blank")
    page.clock.install(time=1_795_903_466)
    page.goto(f"{played.url}#/jobs/delays/changes/new?kind=stop")
    age, button = page.locator("header .age"), page.get_by_role("button", name="Stop it")
    page.clock.run_for(1_000)
    expect(button).to_be_enabled()
    page.route("**/live", lambda route: None)
    page.clock.set_system_time(1_795_903_466 + 3_600)
    page.clock.run_for(500)
    expect(age).to_contain_text(re.compile("not current: data 3[56]\\d\\d s old"))
    expect(button).to_be_disabled()
    page.unroute("**/live")
    page.clock.run_for(10_000)  # what was under way is given up then
    page.clock.run_for(2_000)
    expect(age).to_contain_text(re.compile(r"^data \d s old"))
    expect(button).to_be_enabled()


def test_a_coordinator_that_is_gone_is_said_to_be(played: Played, visit: Visit) -> None:
    page = visit("about:blank")
    page.clock.install()
    page.goto(f"{played.url}#/jobs/delays/containers")
    expect(page.locator("[data-row]").first).to_contain_text("alive")
    played.server.close()
    for _ in range(12):
        page.clock.run_for(1_000)
    expect(page.get_by_role("alert")).to_contain_text("isn't reached")
    expect(page.locator("header .age.dead")).to_contain_text("not current")
    expect(page.locator("[data-row]").first).to_contain_text("not known")
    expect(page.locator("main .status.bad")).to_have_count(0)
    played.listen()
    for _ in range(40):
        page.clock.run_for(1_000)
        if not page.get_by_role("alert").count():
            break
        page.wait_for_timeout(100)
    expect(page.get_by_role("alert")).to_have_count(0)
    played.beat()
    page.clock.run_for(3_000)
    expect(page.locator("[data-row]").first).to_contain_text("alive")


def test_a_page_in_place_of_an_answer_is_said_to_be_none_and_asking_goes_on(played: Played, visit: Visit) -> None:
    """As a proxy gives it while the coordinator is maintained."""
    page = visit("about:blank")
    page.clock.install()
    page.goto(f"{played.url}#/jobs/delays")
    expect(page.locator(".figures")).to_contain_text("6,000")
    page.route("**/jobs/delays/**", lambda route: route.fulfill(body="<html>maintenance</html>"))
    for _ in range(4):
        page.clock.run_for(1_000)
    expect(page.get_by_role("alert").first).to_contain_text("the answer isn't the coordinator's")
    page.unroute("**/jobs/delays/**")
    played.fields = {at: {"rows_per_second": 1_000.0} for at in (0, 1)}
    played.beat()
    for _ in range(40):
        page.clock.run_for(1_000)
        page.wait_for_timeout(100)
        if "2,000/s" in page.locator(".figures").inner_text():
            break
    expect(page.locator(".figures")).to_contain_text("2,000/s")
    expect(page.get_by_role("alert")).to_have_count(0)


class Holding:
    """A network that holds answers back: from their beginnings, or from what comes after those."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.held = ""

    def __call__(self, app: ASGIApp) -> ASGIApp:
        async def between(scope: Scope, receive: Receive, send: Send) -> None:
            async def told(message: Message) -> None:
                while scope["path"].endswith(self.path) and message["type"] == self.held:
                    await asyncio.sleep(0.02)
                await send(message)

            with contextlib.suppress(LocalProtocolError):  # uvicorn has closed the connection for it
                await app(scope, receive, told)

        return between


def test_a_coordinator_that_never_answers_is_lost_in_ten_seconds(tmp_path: Path, visit: Visit) -> None:
    network = Holding("/overview")
    played = Played(tmp_path, between=network)
    try:
        page = visit("about:blank")
        page.clock.install()
        page.goto(played.url)
        expect(page.locator("[data-row='delays']")).to_be_visible()
        network.held = "http.response.start"
        for _ in range(12):
            page.clock.run_for(1_000)
        expect(page.get_by_role("alert")).to_contain_text("isn't reached")
        expect(page.locator("main .old")).to_have_count(1)
    finally:
        network.held = ""
        played.close()


def test_an_answer_that_comes_slowly_is_waited_for(tmp_path: Path, visit: Visit) -> None:
    network = Holding("/overview")
    network.held = "http.response.body"
    played = Played(tmp_path, between=network)
    try:
        page = visit("about:blank")
        page.clock.install()
        with page.expect_response("**/overview"):
            page.goto(played.url)
        for _ in range(15):
            page.clock.run_for(1_000)
        expect(page.get_by_role("alert")).to_have_count(0)
        network.held = ""
        expect(page.locator("[data-row='delays']")).to_be_visible()
    finally:
        network.held = ""
        played.close()


def test_a_container_whose_lease_has_run_out_is_not_alive(tmp_path: Path, visit: Visit) -> None:
    """Though nobody takes its seat."""
    clock = Clock()
    played = Played(tmp_path, lease=3.0, grace=None, clock=clock)
    try:
        page = visit(f"{played.url}#/jobs/delays/containers")
        expect(page.locator("[data-row]").first).to_contain_text("alive")
        clock.at += 5
        played.containers[1].beat()
        for at, state in enumerate(("not heard", "alive")):
            expect(page.locator(f"[data-row='{played.containers[at].me.container}']")).to_contain_text(state)
        expect(page.get_by_role("region", name="Seats").locator("header")).to_contain_text("1 of them not heard")
        settled(page, "#/jobs/delays")
        expect(page.locator("main .facts").first).to_contain_text("1 of 2")
    finally:
        played.close()


class Clock:
    """The one for leases, set by a test."""

    def __init__(self) -> None:
        self.at = 1_000.0

    def __call__(self) -> float:
        return self.at


def test_a_job_that_nobody_serves_here_is_not_shown_as_dead(played: Played, visit: Visit) -> None:
    """As a coordinator that stands by has it: from the store."""
    from anabranch.coordinator.api import listening, server
    from anabranch.coordinator.coordinator import Coordinator

    standing_by = listening.Server(server.app(Coordinator(played.store)), listening.listen())
    try:
        page = visit(f"{standing_by.url}/ui/#/jobs/delays/containers")
        expect(page.locator("main")).to_contain_text("doesn't serve the job")
        expect(page.locator("[data-row]").first).to_contain_text("not known")
        expect(page.locator("main .status.bad")).to_have_count(0)
        settled(page, "#/jobs/delays/changes/new?kind=stop")
        expect(page.get_by_role("button", name="Stop it")).to_be_disabled()
    finally:
        standing_by.close()


def test_a_token_is_asked_for_kept_for_the_tab_and_never_in_the_address(tmp_path: Path, visit: Visit) -> None:
    played = Played(tmp_path, of_server={"token": "open sesame"})
    try:
        page = visit(f"{played.url}#/jobs/delays/lanes")
        field = page.locator("input[type=password]")
        field.fill("wrong")
        page.get_by_role("button", name="enter").click()
        expect(field).to_be_visible()
        field.fill("open sesame")
        page.get_by_role("button", name="enter").click()
        expect(page.locator("[data-row]")).to_have_count(2)  # where one was going

        asked: list[str] = []
        linked = visit("about:blank")
        linked.on("request", lambda request: asked.append(f"{request.url} {request.headers.get('referer', '')}"))
        linked.goto(f"{played.url}#/login?token=open+sesame&next=%2Fjobs%2Fdelays%2Flanes")
        expect(linked.locator("[data-row]")).to_have_count(2)
        assert linked.url.endswith("#/jobs/delays/lanes")
        assert linked.evaluate("Object.keys(localStorage).length + document.cookie.length") == 0
        assert not any("sesame" in text.split("#")[0] or "sesame" in text.split()[1:] for text in asked)
        linked.go_back()
        assert "sesame" not in linked.url
        linked.go_forward()
        linked.get_by_role("button", name="forget token").click()
        expect(linked.locator("input[type=password]")).to_be_visible()
        assert linked.evaluate("sessionStorage.length") == 0
    finally:
        played.close()


def test_pages_are_reached_and_rows_opened_by_keys_alone(played: Played, visit: Visit) -> None:
    page = visit(played.url)
    expect(page.get_by_role("link", name="delays")).to_be_visible()
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("delays")
    page.keyboard.press("g")
    page.keyboard.press("l")
    expect(page.locator("[data-row]")).to_have_count(2)
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_contain_text("Lane ")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()


def test_the_table_of_the_matrix_has_what_the_job_model_has(played: Played, visit: Visit) -> None:
    model = played.coordinator.model("delays")
    wanted = {
        (re.sub(r"-\d+-\d+$", "", task), seat.seat)
        for seat in model.containers
        for tasks in seat.tasks.values()
        for task in tasks
    }
    page = visit(f"{played.url}#/jobs/delays/matrix")
    box = page.get_by_role("application")
    box.focus()
    page.keyboard.press("ArrowRight")
    shown = page.locator("aside").inner_text()
    page.goto(f"{played.url}#/jobs/delays/matrix?view=table")
    expect(page.locator("[data-row]")).to_have_count(len(wanted))
    cells = [row.locator("td").all_inner_texts() for row in page.locator("[data-row]").all()]
    assert {(partition, seat) for partition, seat, _, _ in cells} == wanted
    first = model.stages[0].tasks[0].name.split("-")[0]
    here = next((row[3] for row in cells if row[:2] == [first, "1"]), "0")
    assert f"{here} of 4" in shown
    with page.expect_download() as saving:
        page.get_by_role("button", name="save as CSV").click()
    rows = list(csv.reader(Path(saving.value.path()).read_text().splitlines()))
    assert [row[:2] + row[3:] for row in rows[1:]] == [row[:2] + row[3:] for row in cells]
    assert rows[0] == ["partition", "container's seat", "rack", "buckets of 4"]


def test_what_is_saved_is_no_formula(played: Played, visit: Visit) -> None:
    rack = '=HYPERLINK("http://evil.example")'
    played.coordinator.fence(played.containers.pop().me.container, "out of order")
    for fence in played.coordinator.fences():
        played.coordinator.fenced(fence.lane)
    played.containers.append(Container(played.coordinator, "delays", "1", host="another", rack=rack))
    page = visit(f"{played.url}#/jobs/delays/matrix?view=table")
    with page.expect_download() as saving:
        page.get_by_role("button", name="save as CSV").click()
    rows = list(csv.reader(Path(saving.value.path()).read_text().splitlines()))
    assert {row[2] for row in rows if row[1] == "1"} == {f"'{rack}"}


def test_a_matrix_that_is_partly_in_sight_has_a_map_on_which_one_jumps(played: Played, visit: Visit) -> None:
    page = visit(f"{played.url}#/jobs/delays/matrix")
    expect(page.get_by_role("application")).to_be_visible()
    small = page.locator("canvas.map")
    expect(small).to_be_hidden()  # all is in sight
    page.set_viewport_size({"width": 900, "height": 300})
    for _ in range(12):
        page.locator(".canvas").dispatch_event("wheel", {"deltaY": -1, "ctrlKey": True, "bubbles": True})
    expect(small).to_be_visible()
    page.locator(".canvas").hover(position={"x": 140, "y": 50})
    facts = page.locator("aside dd").first
    expect(facts).to_have_text("Partition_0")
    small.scroll_into_view_if_needed()
    small.click(position={"x": 5, "y": 148})
    page.locator(".canvas").hover(position={"x": 142, "y": 52})
    expect(facts).not_to_have_text("Partition_0")


def test_numbers_beyond_what_javascript_counts_are_shown_digit_for_digit(played: Played, visit: Visit) -> None:
    far = 9_007_199_254_740_993
    ssp = str(played.lanes[0].ssps[0].whole)
    played.fields = {0: {"positions": {ssp: far}, "ends": {ssp: far + 2}}}
    played.beat()
    page = visit(f"{played.url}#/jobs/delays/lanes/{played.lanes[0].id}")
    expect(page.locator(f"[data-row='{ssp}']")).to_contain_text(f"{far:,}")
    expect(page.locator(f"[data-row='{ssp}']")).to_contain_text(f"{far + 2:,}")


def test_stopping_at_once_wants_the_name_and_is_asked_for_once(played: Played, visit: Visit) -> None:
    page = visit(f"{played.url}#/jobs/delays/changes/new?kind=stop&now=1")
    button = page.get_by_role("button", name="Stop it")
    expect(button).to_be_disabled()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if request.method == "POST" else None)
    page.get_by_label("Type the job's name").fill("delays")
    button.dblclick()
    page.wait_for_url("**/changes")
    assert [url.rsplit("/", 1)[1] for url in asked] == ["stop?now=1"]
    assert played.coordinator.status("delays").state in ("stopping", "stopped")
