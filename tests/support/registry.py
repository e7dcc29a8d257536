"""A schema registry for tests: the part of Confluent's REST interface that jobs use, in this process."""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import unquote


@dataclass
class FakeRegistry:
    """``subjects``: name → the ids of its versions. ``login``: what clients must send, None: nothing.

    ``token``: what clients must get at ``/token`` and bring along instead. ``frozen`` are the subjects with which
    nothing new is compatible. ``busy``: so many requests are turned away before one is answered. ``answers``: what is
    answered to a request instead, with bytes for what isn't JSON. ``asked`` are the requests that came.
    """

    url: str = ""
    subjects: dict[str, list[int]] = field(default_factory=dict)
    schemas: dict[int, dict[str, Any]] = field(default_factory=dict)
    login: str | None = None
    token: str | None = None
    busy: int = 0
    frozen: set[str] = field(default_factory=set)
    answers: dict[str, tuple[int, Any]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def register(self, subject: str, schema: object, **more: Any) -> int:
        """Make a schema the subject's newest; gives its id."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        number = next((n for n, held in self.schemas.items() if held == {"schema": text, **more}), 0)
        number = number or 100 + len(self.schemas)
        self.schemas[number] = {"schema": text, **more}
        held = self.subjects.setdefault(subject, [])
        if number not in held:
            held.append(number)
        return number

    def lets_in(self, authorization: str) -> bool:
        if self.token is not None:
            return authorization == f"Bearer {self.token}"
        return self.login in (None, base64.b64decode(authorization.removeprefix("Basic ")).decode())

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        words = [unquote(word) for word in path.partition("?")[0].strip("/").split("/")]
        if words == ["subjects"]:
            return 200, sorted(self.subjects)
        subject, missing = words[1], (404, {"error_code": 40401, "message": "Subject not found."})
        held = self.subjects.get(subject)
        if method == "POST" and len(words) == 3:
            known = {self.schemas[number]["schema"] for number in held or ()}
            if subject in self.frozen and body["schema"] not in known:
                return 409, {"error_code": 409, "message": "Schema being registered is incompatible"}
            return 200, {"id": self.register(subject, body["schema"])}
        if held is None:
            return missing
        if method == "POST":
            found = [number for number in held if self.schemas[number]["schema"] == body["schema"]]
            return (200, {"subject": subject, "id": found[0]}) if found else missing
        if len(words) == 3:
            return 200, list(range(1, len(held) + 1))
        number = held[int(words[3]) - 1]
        return 200, {"subject": subject, "version": int(words[3]), "id": number, **self.schemas[number]}


@contextmanager
def serving(certificate: Path | None = None) -> Iterator[FakeRegistry]:
    """One on a free port of the loopback address. ``certificate``: a file with one and its key, for TLS."""
    registry = FakeRegistry()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(None)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.path == "/token":
                self._say(200, {"access_token": registry.token, "token_type": "Bearer", "expires_in": 3600})
            else:
                self._answer(json.loads(body))

        def _answer(self, body: Any) -> None:
            registry.asked.append(f"{self.command} {self.path}")
            code, told = 401, {"message": "no"}
            if registry.busy > 0:
                registry.busy -= 1
                code, told = 503, {"message": "later"}
            elif registry.lets_in(self.headers.get("Authorization", "")):
                asked = f"{self.command} {self.path.partition('?')[0]}"
                code, told = registry.answers.get(asked) or registry.answer(self.command, self.path, body)
            self._say(code, told)

        def _say(self, code: int, told: Any) -> None:
            said = told if isinstance(told, bytes) else json.dumps(told).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    registry.url = f"{'http' if certificate is None else 'https'}://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
