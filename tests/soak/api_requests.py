"""Requests that Schemathesis makes of the OpenAPI document, sent to a coordinator without a token, with that of a
reader and with that of an operator: none breaks it, and nothing is changed but by the operator."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import requests
from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from anabranch.coordinator.api import limits, listening
from anabranch.coordinator.api import server as server_api
from anabranch.coordinator.api.openapi import described
from anabranch.coordinator.api.operations import OPERATIONS
from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.store import Store
from tests.acceptance.harness import Workspace
from tests.support.interruption import ended_if_interrupted, interruptible
from tests.unit.coordinator.inputs import Counts, running
from tests.unit.coordinator.workers import JOB

_NAMES = {"job": [JOB, "nobody"], "container": [f"{JOB}:0:1", f"{JOB}:0:9"], "sha256": ["0" * 64]}
TOKENS = {"nobody": None, "read": "the-token-of-readers", "operate": "the-token-of-operators"}


@dataclass
class Sent:
    """How requests were answered: counts by status."""

    role: str
    statuses: Counter[int] = field(default_factory=Counter)

    @property
    def count(self) -> int:
        return self.statuses.total()


def sent(each: int, number: int = 0) -> list[Sent]:
    """Send so many requests of each operation, and as many that are wrong on purpose: each request in each role, to a
    coordinator of its own.

    Raises:
        AssertionError: one broke a coordinator, or was let through; names it.
    """
    import schemathesis  # takes seconds, and soak's other scenarios do without it
    from schemathesis.generation import GenerationMode

    with contextlib.ExitStack() as stack, capture_logs():
        asked = [_Role(Sent(role), *stack.enter_context(_serving())) for role in TOKENS]
        schema = schemathesis.openapi.from_dict(described(OPERATIONS, "0"))
        for result in schema.get_all_operations():
            operation = result.ok()
            for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
                with contextlib.suppress(_Nothing):
                    _sent(operation, mode, asked, each, number)
        for role in asked:
            if role.found.role != "operate":
                assert _state(role.coordinator) == role.before, f"{role.found.role}: something was changed"
            assert role.coordinator.jobs(), "it can still be asked"
    return [role.found for role in asked]


class _Role:
    """Who asks which coordinator, and how that was answered."""

    def __init__(self, found: Sent, coordinator: Coordinator, url: str) -> None:
        self.found = found
        self.coordinator = coordinator
        self.url = url
        self.before = _state(coordinator)
        self.session = requests.Session()


class _Nothing(Exception):
    """An operation without parameters can't be asked for wrongly."""


def _sent(operation: Any, mode: Any, asked: list[_Role], each: int, number: int) -> None:
    names = {name: st.sampled_from(values) for name, values in _NAMES.items() if f"{{{name}}}" in operation.path}
    known = st.one_of(st.none(), st.fixed_dictionaries(names)) if names else st.none()

    @seed(number)
    @settings(
        max_examples=each,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
    )
    @given(operation.as_strategy(generation_mode=mode), known)
    def ask(case: Any, path: dict[str, str] | None) -> None:
        ended_if_interrupted()
        if path:
            case.path_parameters = {**(case.path_parameters or {}), **path}
        for role in asked:
            _ask(case, operation, role)

    try:
        ask()
    except Exception as error:
        if type(error).__name__ in {"Unsatisfiable", "SkipTest"}:
            raise _Nothing from error
        raise


def _ask(case: Any, operation: Any, role: _Role) -> None:
    who, token = role.found.role, TOKENS[role.found.role]
    case.headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    answer = case.call(base_url=role.url, timeout=60, session=role.session)
    role.found.statuses[answer.status_code] += 1
    what = f"{who}: {case.method} {case.path} {case.path_parameters} {case.query}: {answer.status_code} {answer.text}"
    assert answer.status_code < 500, what
    if who == "nobody" and operation.path != "/healthz":
        assert answer.status_code in {400, 401, 404, 405}, what  # 400: no HTTP, says the server
    elif who == "read" and operation.method.upper() != "GET":
        assert answer.status_code in {400, 403, 404, 405}, what


def sent_by_all(seed_: int, workspace: Workspace) -> str:
    """100,000 requests: a scenario of soak."""
    each = 100_000 // (len(OPERATIONS) * len(TOKENS) * 2) + 1
    return "; ".join(f"{one.role}: {one.count:,} {dict(sorted(one.statuses.items()))}" for one in sent(each, seed_))


@contextlib.contextmanager
def _serving() -> Iterator[tuple[Coordinator, str]]:
    coordinator = Coordinator(Store("sqlite://"), lease=3600.0, counting=Counts())
    running(coordinator)
    refused, limits.MOST_REFUSED = limits.MOST_REFUSED, 10**9
    routes = server_api.app(coordinator, token=TOKENS["operate"], read_token=TOKENS["read"])
    server = listening.Server(routes, listening.listen())
    try:
        yield coordinator, server.url
    finally:
        limits.MOST_REFUSED = refused
        server.close()


def _state(coordinator: Coordinator) -> object:
    status = coordinator.status(JOB).to_builtins()
    for container in status["containers"]:
        container.pop("lease")
    return status, coordinator.events(JOB), [each.job for each in coordinator.jobs()]


def main() -> None:
    """Send them, and say how they were answered."""
    interruptible()
    words = argparse.ArgumentParser(prog="python -m tests.soak.api_requests", description=__doc__)
    words.add_argument("--each", type=int, default=20, help="requests of each operation, role and mode (default: 20)")
    words.add_argument("--seconds", type=float, default=0.0, help="send others as well, for so long (default: once)")
    words.add_argument("--from", type=int, default=0, dest="first", help="the first seed (default: 0)")
    asked = words.parse_args()
    begun, statuses = time.monotonic(), {role: Counter[int]() for role in TOKENS}
    for number in itertools.count(asked.first):
        for one in sent(asked.each, number):
            counts = statuses[one.role]
            counts.update(one.statuses)
            seconds = time.monotonic() - begun
            found = f"{counts.total():,} {dict(sorted(counts.items()))}"
            print(f"{one.role}: {found}, up to seed {number}, after {seconds:.0f} s", flush=True)
        if time.monotonic() >= begun + asked.seconds:
            return


if __name__ == "__main__":
    main()
