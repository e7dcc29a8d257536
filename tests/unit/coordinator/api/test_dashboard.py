"""The dashboard's files: what a coordinator serves at /ui/, and how its address is made."""

from __future__ import annotations

import gzip
import re
import tarfile
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder
from starlette.testclient import TestClient

from anabranch.cli.dashboard import address
from anabranch.coordinator.api import dashboard, server
from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.store import Store
from tests.support.paths import ROOT

TOKEN = "open sesame"


@pytest.fixture(params=[None, TOKEN], ids=["without a token", "with a token"])
def client(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TestClient]:
    store = Store(f"sqlite:///{tmp_path}/coordinator.db")
    yield TestClient(server.app(Coordinator(store), token=request.param), "http://127.0.0.1", follow_redirects=False)
    store.close()


def page(client: TestClient) -> str:
    return client.get("/ui/").text


def test_the_page_and_what_it_names_are_served_to_anybody(client: TestClient) -> None:
    named = re.findall(r'(?:src|href)="\./([^"]+)"', page(client))
    assert {name.rpartition(".")[2] for name in named} == {"js", "css"}
    for name in named:
        answer = client.get(f"/ui/{name}")
        assert answer.status_code == 200
        assert "immutable" in answer.headers["cache-control"]


def test_a_token_is_needed_for_all_else(client: TestClient) -> None:
    needed = client.get("/jobs").status_code == 401
    assert [client.get(f"/ui{end}").status_code for end in ("/", "/../jobs")] == [200, 401 if needed else 200]
    assert client.post("/ui/").status_code in (401, 404)


@pytest.mark.parametrize("path", ["/", "/ui"])
def test_the_way_to_the_page_is_relative(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert (answer.status_code, answer.headers["location"]) == (303, "ui/")


def test_a_page_may_load_nothing_from_elsewhere_and_run_nothing_inline(client: TestClient) -> None:
    for path in ("/ui/", "/ui/nothing", "/"):
        headers = client.get(path).headers
        policy = dict(each.split(" ", 1) for each in headers["content-security-policy"].split("; "))
        assert policy["default-src"] == "'none'"
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
    assert not re.search(r"https?:|<style|<script>|style=|\son\w+=", page(client))


def test_a_file_that_a_browser_has_is_not_sent_again(client: TestClient) -> None:
    first = client.get("/ui/")
    again = client.get("/ui/", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert client.get("/ui/", headers={"If-None-Match": '"another"'}).status_code == 200


def test_files_are_sent_compressed_to_who_can_read_that(client: TestClient) -> None:
    plain, zipped = (client.get("/ui/", headers={"Accept-Encoding": each}) for each in ("identity", "gzip"))
    assert (plain.headers.get("content-encoding"), zipped.headers["content-encoding"]) == (None, "gzip")
    assert plain.text == zipped.text


def test_the_page_is_light() -> None:
    """The budgets: 100 kB of scripts, 15 of styles, 150 in all, compressed."""
    static = Path(dashboard.__file__).parents[1] / "static"
    sizes: Counter[str] = Counter()
    for path in static.iterdir():
        if path.suffix != ".txt":
            sizes[path.suffix] += len(gzip.compress(path.read_bytes()))
    assert sizes[".js"] < 100_000
    assert sizes[".css"] < 15_000
    assert sum(sizes.values()) < 150_000


def test_without_the_built_files_the_page_says_how_to_build_them(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("importlib.resources.files", lambda _: tmp_path)
    dashboard.forget()
    try:
        answer = client.get("/ui/")
        assert answer.status_code == 503
        assert "python dashboard/build.py" in answer.text
    finally:
        dashboard.forget()


def test_wheel_and_sdist_have_the_built_files(tmp_path: Path) -> None:
    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    (sdist,) = SdistBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    static = {path.name for path in (ROOT / "src/anabranch/coordinator/static").iterdir()}
    with zipfile.ZipFile(wheel) as opened:
        wheels = {name.rpartition("/")[2] for name in opened.namelist() if "/coordinator/static/" in name}
    with tarfile.open(sdist) as opened_sdist:
        names = opened_sdist.getnames()
    assert "index.html" in static
    assert wheels == static
    assert {name.rpartition("/")[2] for name in names if "/coordinator/static/" in name} == static
    assert any(name.endswith("dashboard/hatch_build.py") for name in names)
    assert not any("node_modules" in name for name in names)


@pytest.mark.parametrize(
    ("job", "token", "expected"),
    [
        (None, None, "http://a:1/ui/#/"),
        ("delays", None, "http://a:1/ui/#/jobs/delays"),
        ("delays", "a b&c", "http://a:1/ui/#/login?token=a+b%26c&next=%2Fjobs%2Fdelays"),
    ],
)
def test_a_token_travels_in_the_part_of_the_address_that_is_not_sent(
    job: str | None, token: str | None, expected: str
) -> None:
    assert address("http://a:1/", job, token) == expected
