"""A client that asks what a change would do never gets the change itself: what has no dry run refuses the question."""

from __future__ import annotations

import json
from typing import Any

import pytest

from anabranch.coordinator.api.operation import Operation
from anabranch.coordinator.api.operations import OPERATIONS, Operations
from anabranch.model.document import Document
from anabranch.protocol.container import Heartbeat, Registration
from tests.unit.coordinator.api.requests import filled
from tests.unit.coordinator.api.test_request_checks import PROGRAM, Served, served
from tests.unit.coordinator.helpers import plan

__all__ = ["served"]

CHANGES = [each for each in OPERATIONS if each.changes]
WITHOUT_BODY = [each for each in CHANGES if each.request is None]
JSON = {"Content-Type": "application/json"}
DRY = json.dumps({"dry": True, "brief": True}).encode()


def refusal(served: Served, operation: Operation[..., Any], query: str, body: bytes) -> str:
    """Why a request is refused with 400. It changes nothing."""
    kind = {"Content-Type": "application/zip"} if operation.request is bytes else JSON
    before = served.coordinator.status("delays"), served.coordinator.events("delays")
    answer = served.ask(operation.method, f"{filled(operation.path)}{query}", kind, body)
    assert (answer.status, before) == (
        400,
        (served.coordinator.status("delays"), served.coordinator.events("delays")),
    ), answer.text
    return str(json.loads(answer.text)["error"])


def test_there_are_operations_without_a_body() -> None:
    assert {each.name for each in WITHOUT_BODY} >= {"stop", "resume", "cancel", "fence"}


@pytest.mark.parametrize("operation", WITHOUT_BODY, ids=lambda each: each.name)
@pytest.mark.parametrize("body", [DRY, b"{}", b"x"])
def test_an_operation_without_a_document_takes_no_body(
    served: Served, operation: Operation[..., Any], body: bytes
) -> None:
    assert "takes no body" in refusal(served, operation, "", body)


@pytest.mark.parametrize("operation", CHANGES, ids=lambda each: each.name)
@pytest.mark.parametrize("query", ["?dry=1", "?dry=", "?Now=1"])
def test_a_change_takes_no_query_that_it_does_not_know(
    served: Served, operation: Operation[..., Any], query: str
) -> None:
    body = DRY if operation.request else b""
    assert f"has no query parameter '{query[1:].partition('=')[0]}'" in refusal(served, operation, query, body)


@pytest.mark.parametrize(
    ("operation", "document"),
    [
        (Operations.start, plan("other", program=PROGRAM)),
        (Operations.register, Registration(job="delays", execution="x", host="h", pid=1)),
        (Operations.heartbeat, Heartbeat(container="delays:0:1", epoch=2, number=1)),
    ],
    ids=["start", "register", "heartbeat"],
)
def test_a_document_without_a_dry_run_is_refused_one(
    served: Served, operation: Operation[..., Any], document: Document
) -> None:
    asked = {**document.to_builtins(), "dry": True}
    assert "has no dry run" in refusal(served, operation, "", json.dumps(asked).encode())
    assert [each.job for each in served.coordinator.jobs()] == ["delays"]


def test_fields_that_are_not_known_are_accepted(served: Served) -> None:
    """A container may be newer than the coordinator."""
    registration = Registration(job="delays", execution="x", host="h", pid=1).to_builtins()
    body = json.dumps({**registration, "later": 1}).encode()
    assert served.ask("POST", "/containers", JSON, body).status == 200
