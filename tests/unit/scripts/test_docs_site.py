"""The documentation as a site: it is built without a warning, and needs no network to be read and searched."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT

LOADED = re.compile(r"""<(?:script|img|iframe)[^>]*\ssrc=["']?(https?:|//)|<link[^>]*\shref=["']?(https?:|//)[^>]*>""")
"""What a browser fetches by itself. A link that a reader may follow is none."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.long
def test_it_loads_nothing_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 60
    foreign = {
        (page.relative_to(site).as_posix(), found.group(0))
        for page in pages
        for found in LOADED.finditer(page.read_text(encoding="utf-8"))
        if 'rel="canonical"' not in found.group(0)
    }
    assert foreign == set()
    styles = [css for css in site.rglob("*.css") if re.search(r"url\(['\"]?https?:", css.read_text(encoding="utf-8"))]
    assert styles == []


def test_the_search_works_from_a_folder(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    text = {entry["location"]: entry["text"] for entry in index["docs"]}
    assert any(location.startswith("how-to/drain.html") for location in text)
    assert (site / "search" / "search_index.js").exists()  # what a page can load without a server


def test_what_comes_from_code_is_there(site: Path) -> None:
    cli = (site / "reference" / "cli.html").read_text(encoding="utf-8")
    assert "anabranch stream put" in cli
    assert "--available-now" in cli
    http = (site / "reference" / "http.html").read_text(encoding="utf-8")
    assert "POST /jobs/{job}/scale" in http
    api = (site / "reference" / "api" / "anabranch.html").read_text(encoding="utf-8")
    assert "partition_by" in api
    assert ":meth:" not in api


def test_files_of_the_repository_can_be_read_in_it(site: Path) -> None:
    page = (site / "how-to" / "write-your-own-table.html").read_text(encoding="utf-8")
    assert "repository/examples/sqlite_table.py.txt" in page
    assert "class SqliteTable" in (site / "repository" / "examples" / "sqlite_table.py.txt").read_text(encoding="utf-8")
