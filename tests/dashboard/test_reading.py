"""What pages show whatever is put into them, to whoever reads them, and how a change is made."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from playwright.sync_api import expect

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
