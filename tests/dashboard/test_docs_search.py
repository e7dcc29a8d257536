"""The documentation's search works in a browser that opened the site from a folder, without a server or a network."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.dashboard.conftest import SLOWEST
from tests.support.paths import ROOT


@pytest.mark.long
def test_a_page_is_found(browser: Browser, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    subprocess.run(command, cwd=ROOT, env=env, capture_output=True, check=True, timeout=300)
    context = browser.new_context(offline=True)
    page = context.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"file://{tmp_path}/index.html")
    page.locator("input.md-search__input").press_sequentially("session windows")
    expect(page.locator(".md-search-result__link").first).to_be_visible(timeout=SLOWEST)
    assert [url for url in asked if not url.startswith(("file://", "data:", "blob:"))] == []
    context.close()
