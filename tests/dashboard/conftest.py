"""A browser for all tests here, and coordinators with played containers."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.dashboard.played import Played

PAGES = (
    "#/",
    "#/jobs/delays",
    "#/jobs/delays/graph",
    "#/jobs/delays/matrix",
    "#/jobs/delays/matrix?by=moves",
    "#/jobs/delays/matrix?by=moves&kind=scale&containers=3",
    "#/jobs/delays/lanes",
    "#/jobs/delays/lanes?closed=1",
    "#/jobs/delays/lanes?view=timeline",
    "#/jobs/delays/partitions",
    "#/jobs/delays/containers",
    "#/jobs/delays/assignment",
    "#/jobs/delays/changes",
    "#/jobs/delays/changes/new?kind=scale&factor=8",
    "#/jobs/delays/changes/new?kind=drain",
    "#/jobs/delays/changes/new?kind=stop",
    "#/jobs/delays/changes/new?kind=fence&container=delays:0:1",
    "#/jobs/delays/drain",
    "#/jobs/delays/drain?early=1",
    "#/jobs/delays/sizing",
    "#/jobs/delays/events",
    "#/jobs/delays/dead-letters",
    "#/coordinators",
    "#/nowhere",
)
SLOWEST = int(os.environ.get("ANABRANCH_TEST_PATIENCE", "90000"))
"""Milliseconds within which a page shows what it should, on a machine that is busy with other tests. A mutant of the
page gets less: see :mod:`tests.dashboard.mutants`."""
NAMED, FOREIGN = "coordinator.example", "elsewhere.example"
"""Names of this machine that aren't loopback's: to the browser, a page under one comes over an insecure connection."""


def chromium() -> str:
    """The browser that scripts/test has seen to."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "anabranch"
    names = ("chromium", "chromium-browser", "google-chrome")
    found = next(filter(None, map(shutil.which, names)), None) or next(
        map(str, cache.glob("chromium-*/chromium")), None
    )
    assert found is not None, "these tests drive Chromium, and there is none: run scripts/fetch-browser"
    return found


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=chromium(),
            args=["--no-sandbox", f"--host-resolver-rules=MAP {NAMED} 127.0.0.1, MAP {FOREIGN} 127.0.0.1"],
        )
        yield started
        started.close()


@pytest.fixture
def played(tmp_path: Path) -> Iterator[Played]:
    coordinator = Played(tmp_path)
    yield coordinator
    coordinator.close()


Visit = Callable[..., Page]


@pytest.fixture
def visit(browser: Browser) -> Iterator[Visit]:
    """Opens an address in a context of its own; whatever the page reports as broken fails the test."""
    contexts = []
    broken: list[str] = []

    def opened(url: str, **context: object) -> Page:
        contexts.append(browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **context}))  # type: ignore[arg-type]
        page = contexts[-1].new_page()
        page.set_default_timeout(SLOWEST)
        page.on("pageerror", lambda error: broken.append(str(error)))
        page.add_init_script(
            "window.violations = []; addEventListener('securitypolicyviolation', "
            "(event) => window.violations.push(`${event.violatedDirective} ${event.blockedURI}`))"
        )
        page.goto(url)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert broken == []


MOVE = """(address) => new Promise((moved) => {
    const before = location.hash
    addEventListener('hashchange', () => setTimeout(moved), { once: true })
    location.hash = address
    if (location.hash === before) moved()
})"""
"""The router hears of an address after the call that sets it, and the page is drawn a microtask later: until then, what
is seen is the page before."""


def settled(page: Page, address: str = "") -> None:
    """The page (at an address behind ``#``, if one is given) has something to show."""
    if address:
        page.evaluate(MOVE, address.removeprefix("#"))
    page.wait_for_selector("main h1")
    expect(page.locator(".skeleton")).to_have_count(0, timeout=SLOWEST)


def until(condition: Callable[[], bool]) -> None:
    """What the browser's own waiting can't do: that compiles code in the page, which its policy refuses."""
    end = time.monotonic() + SLOWEST / 1000
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)
