"""A container keeps running while the inputs of a lane can't be reached."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from threading import Event
from typing import Any, cast

import msgspec
import pytest

from anabranch import Job
from anabranch.config import KafkaSettings, Settings, StorageSettings, StreamSettings, SystemsSettings
from anabranch.container.checkpoint import claims
from anabranch.container.checkpoint.folder import Folder
from anabranch.container.checkpoint.lane_folders import LaneFolders
from anabranch.container.lane.building import QueryBuilder
from anabranch.container.lane.handover import Prestarter
from anabranch.container.lane.supervisor import LaneSupervisor
from anabranch.container.reconciler import Container
from anabranch.errors import AnabranchError, FencedError
from anabranch.model.lane import Lane
from anabranch.model.ssp import SSP
from anabranch.protocol.container import (
    Heartbeat,
    HeartbeatResponse,
    Registration,
    RegistrationResponse,
    WantedLane,
)
from anabranch.spark.query.plan import LoadedJob
from anabranch.systems.kafka.system import KafkaSystem
from tests.unit.coordinator.helpers import lane

PATIENCE = 20.0
IN = SSP(system="kafka", stream="in", partition=0)


class Coordinator:
    """One that wants the same lanes all the time, and notes what they await."""

    def __init__(self, until_caught_up: bool, *lanes: Lane) -> None:
        wanted = tuple(WantedLane(lane=each) for each in lanes)
        self._answer = HeartbeatResponse(alive=True, revision=1, wanted=wanted, until_caught_up=until_caught_up)
        self.awaited: set[tuple[str, str]] = set()

    def register(self, _: Registration) -> RegistrationResponse:
        return RegistrationResponse(lease=30, seat="0", container="j:0:1", epoch=1, reads_parts=True)

    def heartbeat(self, beat: Heartbeat, wait: float = 0) -> HeartbeatResponse:
        self.awaited |= {(each.lane, each.attempt.awaits) for each in beat.lanes}
        return self._answer


def container(coordinator: Coordinator, root: str = "lanes") -> Container:
    job = Job("j")
    job.read("in", schema="n int").write("out")
    kafka = KafkaSettings(bootstrap_servers="127.0.0.1:1")
    settings = Settings(
        systems=SystemsSettings(kafka=kafka),
        streams={"in": StreamSettings(system="kafka")},
        storage=StorageSettings(root=root),
    )
    return Container(
        LoadedJob(cast(Any, None), settings, job.graph, {}, {}, {}, "/home/me/job"), cast(Any, coordinator)
    )


def reading(name: str, *ssps: SSP) -> Lane:
    return msgspec.structs.replace(lane(name, ran=True), ssps=ssps)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize(("asked", "until_caught_up"), [("starts", False), ("high_watermarks", True)])
def test_a_lane_waits_for_its_inputs_and_the_others_run(
    monkeypatch: pytest.MonkeyPatch, asked: str, until_caught_up: bool
) -> None:
    is_up, taken = threading.Event(), []

    def answer(*_: object) -> dict[int, int]:
        if not is_up.is_set():
            raise AnabranchError("the Kafka cluster 127.0.0.1:1 didn't answer for 15 s")
        return {0: 0}

    def folder(_: LaneFolders, of: Lane, *__: object) -> Folder:
        taken.append(of.id)
        raise RuntimeError("this is as far as it gets without Spark")

    for name in ("starts", "high_watermarks"):
        monkeypatch.setattr(KafkaSystem, name, answer if name == asked else lambda *_: {0: 0})
    monkeypatch.setattr(LaneFolders, "folder", folder)
    coordinator = Coordinator(until_caught_up, reading("0-kafka", IN), reading("0-none"))
    leaving, ended = threading.Event(), threading.Event()

    def run() -> None:
        container(coordinator).run(Registration(job="j", execution="e", host="h", pid=1), leaving)
        ended.set()

    threading.Thread(target=run, daemon=True).start()
    until(lambda: ("0-kafka", "the brokers of Kafka") in coordinator.awaited)
    until(lambda: "0-none" in taken)
    assert "0-kafka" not in taken
    is_up.set()
    until(lambda: "0-kafka" in taken)
    leaving.set()
    assert ended.wait(PATIENCE)


class Changing(Coordinator):
    """One that announces lanes that will start soon."""

    def __init__(self, until_caught_up: bool, *coming: Lane) -> None:
        super().__init__(until_caught_up)
        self._answer = msgspec.structs.replace(self._answer, coming=coming)


@pytest.mark.parametrize("until_caught_up", [False, True])
def test_only_a_query_that_keeps_running_is_started_ahead(
    monkeypatch: pytest.MonkeyPatch, until_caught_up: bool
) -> None:
    """The lane would never take over any other, which would run on in the lane's folder."""
    announced: list[tuple[Lane, ...]] = []
    announce = Prestarter.announce

    def noted(self: Prestarter, coming: Iterable[Lane], wanted: Iterable[str]) -> None:
        announced.append(tuple(coming))
        announce(self, announced[-1], wanted)

    monkeypatch.setattr(Prestarter, "announce", noted)
    monkeypatch.setattr(QueryBuilder, "take", lambda *_: None)
    monkeypatch.setattr(QueryBuilder, "foreseen", lambda *_: None)
    coming = msgspec.structs.replace(reading("0-b", IN), predecessors=("0-a",))
    leaving = threading.Event()
    run = container(Changing(until_caught_up, coming)).run
    running = threading.Thread(target=run, args=(Registration(job="j", execution="e", host="h", pid=1), leaving))
    running.start()
    until(lambda: bool(announced))
    leaving.set()
    running.join(PATIENCE)
    assert announced[0] == (() if until_caught_up else (coming,))


class Lost(Coordinator):
    """One that takes the seat away once a lane runs."""

    def heartbeat(self, beat: Heartbeat, wait: float = 0) -> HeartbeatResponse:
        if beat.lanes:
            raise FencedError("the seat is lost", "nothing is lost")
        return super().heartbeat(beat, wait)


@pytest.mark.parametrize("fails", [(Prestarter, "end"), (LaneSupervisor, "leave"), (LaneSupervisor, "join"), None])
def test_a_container_that_cannot_stop_cleanly_tells_why_it_stops(
    monkeypatch: pytest.MonkeyPatch, fails: tuple[type, str] | None
) -> None:
    told: list[str] = []

    def step(of: type, name: str) -> Callable[..., object]:
        done = getattr(of, name)

        def noted(*args: Any) -> object:
            told.append(name)
            if (of, name) == fails:
                raise OSError("Input/output error")
            return done(*args)

        return noted

    for of, name in ((Prestarter, "end"), (LaneSupervisor, "leave"), (LaneSupervisor, "join")):
        monkeypatch.setattr(of, name, step(of, name))
    monkeypatch.setattr(claims, "end", lambda: told.append("claims"))
    monkeypatch.setattr(LaneFolders, "folder", lambda *_: Event().wait(0.1))
    coordinator = Lost(False, reading("0-a"), reading("0-b"))
    with pytest.raises(FencedError, match="the seat is lost"):
        container(coordinator, "hdfs:///lanes").run(Registration(job="j", execution="e", host="h", pid=1))
    released = [] if fails == (LaneSupervisor, "join") else ["claims"]
    assert told == ["end", "leave", "leave", "join", "join", *released]
