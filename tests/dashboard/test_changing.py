"""Who may change a job by way of the page, what is sent when he does, and what he is told then."""

from __future__ import annotations

import contextlib
import re
import threading
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
from h11 import LocalProtocolError
from playwright.sync_api import Page, expect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from anabranch.coordinator.api.client import Client
from anabranch.coordinator.api.operations import Operations
from anabranch.protocol.commands import ScaleRequest
from anabranch.protocol.drain import DrainNotification
from tests.dashboard import scaling
from tests.dashboard.conftest import FOREIGN, PAGES, SLOWEST, Visit, settled, until
from tests.dashboard.played import FACTOR, Played

expect.set_options(timeout=SLOWEST)


@pytest.fixture
def other_site() -> Iterator[str]:
    """A page of somebody else, which does what it likes."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html><title>elsewhere</title>")

        def log_message(self, *_: object) -> None:
            return

    site = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=site.serve_forever, daemon=True)
    thread.start()
    yield f"http://{FOREIGN}:{site.server_port}/"
    site.shutdown()
    thread.join()
    site.server_close()


def test_another_site_changes_nothing_and_reads_nothing(played: Played, visit: Visit, other_site: str) -> None:
    """On a coordinator without token, which is where nothing else protects a job."""
    page = visit(other_site)
    at = f"http://127.0.0.1:{played.port}"
    sent = """async (url) => {
        const tried = [];
        for (const [path, init] of [
            ["stop?now=1", {method: "POST", mode: "no-cors"}],
            ["scale", {method: "POST", mode: "no-cors", body: '{"factor": 8}'}],
            ["live", {}],
        ])
            try {
                const answer = await fetch(`${url}/jobs/delays/${path}`, init);
                tried.push(`${answer.type} ${(await answer.text()).length}`);
            } catch (error) { tried.push("refused"); }
        return tried;
    }"""
    answers = page.evaluate(sent, at)
    assert answers[2] == "refused"  # and what it is told of the others says nothing: they are opaque
    page.evaluate(
        """(url) => {
            const form = document.createElement("form");
            form.method = "POST";
            form.action = `${url}/jobs/delays/stop`;
            document.body.append(form);
            form.submit();
        }""",
        at,
    )
    page.wait_for_url(f"{at}/**")
    under_its_name = page.goto(f"http://{FOREIGN}:{played.port}/jobs/delays/live")
    assert under_its_name is not None
    assert under_its_name.status == 403
    status = played.coordinator.status("delays")
    assert (status.state, status.generation) == ("running", 1)
    with Client(at) as client:
        assert client.status("delays").state == "running"


FENCE = "../../containers/delays:0:1/fence%3Fwhy%3Dx"


@pytest.mark.parametrize(
    ("address", "title"),
    [
        *((f"matrix?by=moves&kind={kind}", "No such page") for kind in ("stop", "start", "cancel", "drain", FENCE)),
        *((f"changes/new?kind={kind}", "No such page") for kind in ("stop%3Fnow%3D1", "start", "constructor", FENCE)),
        ("changes/new?kind=../other/stop%3Fnow%3D1", "No such page"),
        ("changes/new?kind=fence&container=other:0:1", "No such page"),
        ("changes/new?kind=fence&container=delays:0:1", "Plan: fence delays:0:1"),
        ("changes/new?kind=stop&now=1", "Plan: stop"),
        ("changes/new?kind=cancel", "Plan: take back a change"),
    ],
)
@pytest.mark.suite(cases=4)
def test_an_address_by_itself_changes_nothing(played: Played, visit: Visit, address: str, title: str) -> None:
    """It may come in a link from anybody; whoever opens it has a token that suffices."""
    before = played.coordinator.status("delays").state, played.coordinator.events("delays")
    page = visit("about:blank")
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url) if request.method != "GET" else None)
    page.goto(f"{played.url}#/jobs/delays/{address}")
    expect(page.locator("main h1")).to_have_text(title)
    page.wait_for_timeout(1_000)  # a plan is asked for once nobody has typed for a while
    assert sent == []
    assert (played.coordinator.status("delays").state, played.coordinator.events("delays")) == before


def test_who_may_only_read_is_offered_nothing_else(tmp_path: Path, visit: Visit) -> None:
    played = Played(tmp_path, of_server={"token": "all of it", "read_token": "only read"})
    try:
        at = f"http://127.0.0.1:{played.port}"
        described = httpx.get(f"{at}/openapi.json", headers={"Authorization": "Bearer all of it"}).json()
        refused = [
            (method, path)
            for path, methods in described["paths"].items()
            for method in methods
            if _asked(at, method, path).status_code == 403
        ]
        changing = {(m, path) for path, ms in described["paths"].items() for m in ms if m != "get"}
        private = {path for method, path in refused if method == "get"}
        assert set(refused) >= changing
        assert private == {
            "/jobs/{job}/running",
            "/jobs/{job}/dead-letters",
            "/jobs/{job}/early-output",
            "/artifacts/{sha256}",
        }

        page = visit(f"{played.url}#/login?token=only+read&next=%2F")
        for address in PAGES:
            settled(page, address)
            offered = page.locator("main :is(button.apply, a[href*='changes/new'])")
            expect(offered).to_have_count(0)
        settled(page, "#/coordinators")
        expect(page.locator("main .facts")).to_contain_text("read")
        page.evaluate("sessionStorage.clear()")
        page.goto("about:blank")
        page.goto(f"{played.url}#/login?token=all+of+it&next=%2Fjobs%2Fdelays%2Fchanges")
        expect(page.get_by_role("link", name="scale")).to_be_visible()  # so that the check above says something
    finally:
        played.close()


def _asked(at: str, method: str, path: str) -> httpx.Response:
    filled = re.sub(r"\{\w+\}", "delays", path)
    sent = {"json": {}} if method != "get" else {}
    return httpx.request(method.upper(), f"{at}{filled}", headers={"Authorization": "Bearer only read"}, **sent)


def test_what_was_predicted_stays_beside_what_was_measured(played: Played, visit: Visit) -> None:
    now = played.coordinator.registry.now()
    played.store.note([*scaling.begun("delays", now), *scaling.done("delays", now)])
    page = visit(f"{played.url}#/jobs/delays/changes")
    row = page.locator("[data-row]").first
    for text in ("1.2 s", "1.6 s", "4.1 s", "done"):
        expect(row).to_contain_text(text)
    row.get_by_role("link").click()
    figures = page.get_by_role("region", name="Pause in the output").locator("dd")
    expect(figures).to_have_text(["1.2 s", "1.6 s"])


def test_predictions_and_measurements_are_compared_in_one_picture(played: Played, visit: Visit) -> None:
    now = played.coordinator.registry.now()
    page = visit(f"{played.url}#/jobs/delays/changes")
    for at in (now - 60, now):
        played.store.note([*scaling.begun("delays", at), *scaling.done("delays", at)])
    picture = page.get_by_role("img", name="2 of 2 pauses came within 30 % or 0.5 s of the prediction")
    expect(picture.locator("circle")).to_have_count(2)


def test_a_pause_that_is_not_measured_yet_is_said_not_to_be(played: Played, visit: Visit) -> None:
    now = played.coordinator.registry.now()
    played.store.note([*scaling.begun("delays", now), *scaling.done("delays", now)[:1]])
    page = visit(f"{played.url}#/jobs/delays/changes")
    expect(page.locator("[data-row]").first).to_contain_text("not known yet")
    page.goto(f"{played.url}#/jobs/delays")
    expect(page.get_by_role("region", name="Last change")).to_contain_text("measured not known yet")


def test_a_job_that_changed_meanwhile_is_planned_anew(played: Played, visit: Visit) -> None:
    page = visit("about:blank")
    page.clock.install()
    page.goto(f"{played.url}#/jobs/delays/changes/new?kind=scale&factor=8")
    page.clock.run_for(1_000)
    button = page.get_by_role("button", name="Apply to generation 1")
    expect(button).to_be_enabled()
    played.coordinator.call(Operations.scale, "delays", ScaleRequest(factor=2 * FACTOR, containers=3))
    button.click()  # the page hasn't asked again since
    expect(page.get_by_role("alert")).to_contain_text("planned for as deployment 1, generation 1")
    expect(page.get_by_role("alert")).to_contain_text("plan it again")
    assert played.coordinator.status("delays").generation == 2


class Losing:
    """A network that loses the first answer to a request that changes something, once it is carried out."""

    def __init__(self) -> None:
        self.lost = 0
        self.changes: list[str] = []

    def __call__(self, app: ASGIApp) -> ASGIApp:
        async def between(scope: Scope, receive: Receive, send: Send) -> None:
            changes = False

            async def heard() -> Message:
                nonlocal changes
                message = await receive()
                changes = scope["method"] == "POST" and b'"dry":true' not in message.get("body", b"")
                return message

            async def told(message: Message) -> None:
                if changes and not self.lost and message["type"] == "http.response.body":
                    self.lost += 1
                    message = {**message, "body": message["body"][:1]}
                await send(message)

            with contextlib.suppress(LocalProtocolError):  # uvicorn has closed the connection for it
                await app(scope, heard, told)
            if changes:
                self.changes.append(scope["path"])

        return between


def test_an_answer_that_is_lost_is_said_to_be_and_nothing_is_done_twice(tmp_path: Path, visit: Visit) -> None:
    network = Losing()
    played = Played(tmp_path, between=network)
    try:
        page = visit(f"{played.url}#/jobs/delays/changes/new?kind=scale&factor=8")
        page.get_by_role("button", name="Apply to generation 1").dblclick()
        until(lambda: network.lost == 1)
        # Whether it was applied isn't known: the page says that it has heard nothing, and then sees how it is.
        expect(page.locator("main")).to_contain_text(re.compile("isn't reached|Nothing changes: it is so already"))
        page.reload()
        expect(page.locator("main")).to_contain_text("Nothing changes: it is so already")
        expect(page.get_by_role("button", name="Apply")).to_be_disabled()
        assert network.changes == ["/jobs/delays/scale"]
        assert played.coordinator.status("delays").generation == 2
    finally:
        played.close()


def test_an_answer_that_is_not_the_coordinators_is_said_to_be_none(played: Played, visit: Visit) -> None:
    """As a proxy gives it; once that is over, the same click does it."""
    page = visit(f"{played.url}#/jobs/delays/changes/new?kind=scale&factor=8")
    button = page.get_by_role("button", name="Apply to generation 1")
    expect(button).to_be_enabled()
    page.route("**/jobs/delays/scale", lambda route: route.fulfill(body="<html>maintenance</html>"))
    button.click()
    expect(page.get_by_role("alert")).to_contain_text("the answer isn't the coordinator's")
    assert played.coordinator.status("delays").generation == 1
    page.unroute("**/jobs/delays/scale")
    button.click()
    page.wait_for_url("**/changes")
    assert played.coordinator.status("delays").generation == 2


def test_a_plan_is_dated_by_the_clock_of_the_coordinator(tmp_path: Path, visit: Visit) -> None:
    at = datetime(2026, 11, 26, 2, 0, tzinfo=UTC).timestamp()
    played = Played(tmp_path, now=lambda: at)
    try:
        page = visit(f"{played.url}#/jobs/delays/changes/new?kind=scale&factor=8", timezone_id="UTC")
        planned = page.get_by_role("region", name="The plan").locator("header")
        expect(planned).to_contain_text("planned 02:0")
    finally:
        played.close()


def test_a_drain_is_followed_stage_by_stage_and_can_be_taken_back_until_time_ends(tmp_path: Path, visit: Visit) -> None:
    played = Played(tmp_path, stages=2)
    try:
        page = visit(f"{played.url}#/jobs/delays/drain")
        settled(page)
        note = DrainNotification(uuid=str(uuid.uuid4()), run_id=1)
        played.coordinator.call(Operations.drain, "delays", note)
        reading = [at for at, lane in enumerate(played.lanes) if not lane.upstream]
        stuck = "map works on embedded/flights/1#9, offset 88,120, since 74 s"
        played.fields = {reading[0]: {"halted": note.uuid}, reading[1]: {"stuck": stuck, "overdue": True}}
        played.beat()
        read_on(page)
        first, second = (page.locator("main tbody tr").nth(at) for at in (0, 1))
        expect(first).to_contain_text("1/2")
        expect(second).to_contain_text("0/2")
        expect(page.locator("main")).to_contain_text(stuck)
        expect(page.locator("main")).to_contain_text("can be taken back until time ends")
        expect(page.get_by_role("link", name="take it back")).to_be_visible()

        where = dict.fromkeys(sorted({str(ssp.whole) for at in reading for ssp in played.lanes[at].ssps}), 0)
        for _ in range(3):
            for at in reading:
                its = {str(ssp.whole) for ssp in played.lanes[at].ssps}
                played.fields[at] = {"halted": note.uuid, "positions": {name: where[name] for name in its}}
            played.beat()
        progress = played.coordinator.status("delays").drain
        assert progress is not None
        assert progress.last
        read_on(page)
        expect(first).to_contain_text("2/2 ✓")
        expect(page.locator("main")).to_contain_text("it can't be taken back any more")
        expect(page.get_by_role("link", name="take it back")).to_have_count(0)
        settled(page, "#/jobs/delays/changes/new?kind=cancel")
        page.get_by_role("button", name="Take it back").click()
        expect(page.get_by_role("alert")).to_contain_text("drains to the end")
        expect(page.get_by_role("alert")).to_contain_text("start it again then")
    finally:
        played.close()


def test_a_drain_is_taken_back(played: Played, visit: Visit) -> None:
    played.coordinator.call(Operations.drain, "delays", DrainNotification(uuid=str(uuid.uuid4()), run_id=1))
    page = visit(f"{played.url}#/jobs/delays/drain")
    page.get_by_role("link", name="take it back").click()
    page.get_by_role("button", name="Take it back").click()
    page.wait_for_url("**/changes")
    assert played.coordinator.status("delays").drain is None


def test_a_seat_is_taken_away_once_the_name_is_typed(played: Played, visit: Visit) -> None:
    lost = played.containers[1].me.container
    page = visit(f"{played.url}#/jobs/delays/containers")
    page.locator(f"[data-row='{lost}']").get_by_role("link", name="fence").click()
    expect(page.get_by_label("the same on the command line")).to_have_value(f"anabranch fence {lost}")
    button = page.get_by_role("button", name="Take its seat away")
    expect(button).to_be_disabled()
    page.get_by_label("Type the job's name").fill("delays")
    button.click()
    page.wait_for_url("**/containers")
    expect(page.locator(f"[data-row='{lost}']")).to_contain_text("by hand, from the dashboard")


def read_on(page: Page) -> None:
    """The page asks for what is new."""
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
