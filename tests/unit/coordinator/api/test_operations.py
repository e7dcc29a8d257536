"""The table of operations: the routes, the client and the description have all of it, and nothing else."""

from __future__ import annotations

import inspect
import json
from typing import Any

import pytest
from starlette.testclient import TestClient

from anabranch.coordinator import commands
from anabranch.coordinator.api import openapi, operations, server
from anabranch.coordinator.api.client import Client
from anabranch.coordinator.api.operation import Operation, operation
from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.store import Store
from anabranch.model.document import Document
from anabranch.protocol.commands import ScaleRequest, ScaleResult
from anabranch.protocol.container import Heartbeat

NAMES = [each.name for each in operations.OPERATIONS]


def named(name: str) -> Operation[..., Any]:
    return next(each for each in operations.OPERATIONS if each.name == name)


def test_names_and_routes_are_said_once() -> None:
    assert len(set(NAMES)) == len(NAMES)
    routes = [(each.method, each.path) for each in operations.OPERATIONS]
    assert len(set(routes)) == len(routes)


@pytest.mark.parametrize("name", NAMES)
def test_every_operation_says_what_it_is_for_and_what_it_gives(name: str) -> None:
    each = named(name)
    assert each.summary
    assert each.result is not None
    assert each.by_leader or not each.changes
    assert each.changes == (each.method != "GET")
    assert (each.method == "GET") <= (each.request is None)


def test_the_server_has_a_route_for_each() -> None:
    with TestClient(server.app(Coordinator(Store("sqlite://")))) as asked:
        routes = {
            (method, route.path)
            for route in asked.app.routes  # type: ignore[attr-defined]
            for method in route.methods - {"HEAD"}
        }
        described = asked.get("/openapi.json").json()
    assert routes == {(each.method, each.path) for each in operations.OPERATIONS}
    again = openapi.described(operations.OPERATIONS, described["info"]["version"])
    assert described == json.loads(json.dumps(again))


@pytest.mark.parametrize("name", NAMES)
def test_the_description_has_its_parameters_and_documents(name: str) -> None:
    each = named(name)
    described = openapi.described(operations.OPERATIONS, "1")
    found = described["paths"][each.path][each.method.lower()]
    assert (found["operationId"], found["summary"]) == (each.name, each.summary)
    in_url = {(one["name"], one["in"], one.get("required", False)) for one in found["parameters"]}
    assert in_url == {
        (one.sent_as, "path" if one.in_path else "query", one.in_path or one.required) for one in each.parameters
    }
    assert ("requestBody" in found) == (each.request is not None)
    schemas = described["components"]["schemas"]
    for kind in (each.request, each.result):
        if isinstance(kind, type) and issubclass(kind, Document):
            assert kind.__name__ in schemas
            assert f"#/components/schemas/{kind.__name__}" in str(found)


def test_the_client_has_a_method_for_each_with_its_parameters() -> None:
    client = Client("http://127.0.0.1:1")
    for each in operations.OPERATIONS:
        if each.name in vars(operations.Pages):
            continue
        assert getattr(Client, each.name) is each
        assert callable(getattr(client, each.name))
        with pytest.raises(TypeError):
            getattr(client, each.name)(*range(9))


def test_an_operation_is_read_off_its_signature() -> None:
    class Table(operations.Operations):
        @operation("POST", "/jobs/{job}/grow", changes=True, asks_systems=True)
        def grow(self, job: str, request: ScaleRequest, often: int = 3) -> ScaleResult:  # type: ignore[empty-body]
            """Grow it"""

        @operation("POST", "/containers/{container}/beat")
        def beat(self, beat: Heartbeat) -> None:
            """Beat"""

        def call(self, operation: Any, /, *args: Any, **kwargs: Any) -> Any:
            return operation.name, dict(operation.bound(*args, **kwargs))

    grow: Operation[..., Any] = Table.grow
    assert (grow.name, grow.body, grow.request, grow.result) == ("grow", "request", ScaleRequest, ScaleResult)
    assert [(one.sent_as, one.in_path, one.kind, one.required) for one in grow.parameters] == [
        ("job", True, str, True),
        ("often", False, int, False),
    ]
    assert list(grow.signature.parameters) == ["job", "request", "often"]
    wish = ScaleRequest(factor=2)
    assert Table().grow("j", wish) == ("grow", {"job": "j", "request": wish, "often": 3})
    with pytest.raises(TypeError, match="request"):
        Table().grow("j")
    beat: Operation[..., Any] = Table.beat
    assert [(one.sent_as, one.in_path) for one in beat.parameters] == [("container", True)]


def test_an_operation_is_carried_out_by_the_coordinator_or_by_the_command_of_its_name() -> None:
    """A command takes what its operation's signature has, after its context; and says what it checks and does."""
    carried_out = 0
    for each in vars(operations.Operations).values():
        if not isinstance(each, Operation):
            continue
        own = vars(Coordinator).get(each.name)
        if own is None:
            command: Any = commands.named(each.name)
            own = command.run
            assert {"check", "apply", "run"} <= set(command.__all__), each.name
            carried_out += 1
        taken = [one.kind for one in list(inspect.signature(own).parameters.values())[1:]]
        assert len(taken) == len(each.signature.parameters), each.name
    assert carried_out > 10


def test_an_operation_without_a_command_is_a_fault() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"commands\.grow"):
        commands.named("grow")
