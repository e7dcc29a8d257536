"""A broker and a PostgreSQL server for all tests of this process."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import hypothesis
import pytest

from anabranch.testing.broker import Cluster
from tests.support import kafka_peers, postgres
from tests.support.cases import left_out

hypothesis.settings.register_profile("anabranch", deadline=None)  # how long an example takes depends on the machine
hypothesis.settings.load_profile("anabranch")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # by "&" of a shell; programs of tests would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)

_LONGEST = "test_running.py"
"""Its minutes would otherwise be those of one process while the others have nothing left to do."""


@pytest.hookimpl(tryfirst=True)  # before those that are long are left out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.name != _LONGEST)
    cases: dict[tuple[str, int], list[pytest.Item]] = {}
    for item in items:
        if (marker := item.get_closest_marker("suite")) and not item.get_closest_marker("long"):
            cases.setdefault((item.nodeid.partition("[")[0], marker.kwargs["cases"]), []).append(item)
    for (_, kept), several in cases.items():
        for item in left_out(several, kept):
            item.add_marker(pytest.mark.long)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One broker, started when a test first asks for it. What tests leave there, others may meet."""
    with kafka_peers.start(tmp_path_factory.mktemp("cluster")) as started:
        yield started


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[postgres.Server]:
    """One server, started when a test first asks for it; each test has databases of its own there."""
    with postgres.serving() as started:
        yield started


@pytest.fixture
def postgresql_url(postgres_server: postgres.Server) -> Iterator[str]:
    """An empty database of the test's own; it is dropped after the test."""
    with postgres_server.database() as made:
        yield made
