"""Requests that wait for the systems of a job's streams hold up no other request."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from anabranch.coordinator.api import listening
from anabranch.coordinator.api.asking import Asking
from anabranch.coordinator.api.client import Client
from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.store import Store
from anabranch.errors import ConflictError
from anabranch.protocol.commands import ExpandRequest, ScaleResult
from tests.unit.coordinator.helpers import Seat, plan, wait_for
from tests.unit.coordinator.programs import PROGRAM

MOST = 8


class Brokers:
    """Those of the job "mute" don't answer until ``answer`` is set. ``asked``: how often they were asked."""

    def __init__(self) -> None:
        self.answer = threading.Event()
        self.asked = 0

    def count(self, job: str, *_: Any) -> dict[str, int]:
        if job == "mute":
            self.asked += 1
            assert self.answer.wait(60)
        return {}


@pytest.fixture
def brokers() -> Iterator[Brokers]:
    made = Brokers()
    yield made
    made.answer.set()


@pytest.fixture
def server(brokers: Brokers) -> Iterator[listening.Server]:
    coordinator = Coordinator(Store("sqlite://"), grace=60.0, lease=60.0, counting=brokers.count)
    for job, process in (("mute", 1), ("good", 2)):
        coordinator.start(plan(job=job, program=PROGRAM))
        Seat(coordinator, job=job, pid=process).report("running", f"{job}-1")
    serving = listening.serve(coordinator)
    yield serving
    serving.close()


def test_questions_keep_nobody_from_changing_a_job() -> None:
    release = threading.Event()

    async def ask() -> str:
        asking = Asking()
        loop = asyncio.get_running_loop()
        waiting = [loop.create_task(asking.run("j", release.wait, changes=False)) for _ in range(MOST)]
        await asyncio.sleep(0)
        try:
            with pytest.raises(ConflictError, match="already waiting"):
                await asking.run("j", lambda: True, changes=False)
            return await asking.run("j", lambda: "changed", changes=True)
        finally:
            release.set()
            await asyncio.gather(*waiting)

    assert asyncio.run(ask()) == "changed"


def test_a_job_whose_brokers_do_not_answer_holds_up_nothing_else(brokers: Brokers, server: listening.Server) -> None:
    def expand() -> ScaleResult:
        with Client(server.url) as client:
            return client.expand("mute", ExpandRequest(dry=True))

    with ThreadPoolExecutor(MOST) as users, Client(server.url, timeout=5.0) as client:
        waiting = [users.submit(expand) for _ in range(MOST)]
        try:
            wait_for(lambda: brokers.asked == MOST)
            assert client.holds_seat("execution-2")
            assert client.expand("good", ExpandRequest(dry=True)).generation == 1
            client.stop("good")
            with pytest.raises(ConflictError, match=f"{MOST} requests for job 'mute' are already waiting") as caught:
                client.expand("mute", ExpandRequest(dry=True))
            assert "anabranch status mute" in caught.value.cure
            client.stop("mute")
        finally:
            brokers.answer.set()
        for each in waiting:
            assert each.exception(60) is not None or each.result().generation == 1
    assert expand().generation == 1
