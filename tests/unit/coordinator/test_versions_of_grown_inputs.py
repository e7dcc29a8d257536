"""Versions that replace one another while inputs grow: none reads again what the one before it has read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import msgspec
import pytest

from anabranch import Job
from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.store import Store
from anabranch.model.ssp import wholes
from anabranch.planning import plan as planning
from anabranch.protocol.commands import ExpandRequest
from anabranch.protocol.container import HeartbeatResponse
from anabranch.protocol.deployment import DeployRequest, Program, RollbackRequest, StartRequest
from anabranch.protocol.lane_report import LanePhase
from tests.support.reports import lane_report
from tests.unit.coordinator.helpers import Clock
from tests.unit.coordinator.versions import Process
from tests.unit.planning import matching
from tests.unit.planning.factory import around, new_id, version


def job(*more: str) -> Job:
    made = Job("j")
    rows = made.read("in", key="k string", schema="n int")
    for stream in more:
        rows = rows.merge(made.read(stream, key="k string", schema="n int"))
    rows.where("n > 0").write("out")
    return made


class Advancing(Process):
    """Its lanes read 10 records more of each partition in each batch."""

    def work(self, begin: bool = True) -> HeartbeatResponse:
        for _ in range(6):
            for each in self.beat().wanted:
                lane = each.lane
                begins = {str(ssp): offset for ssp, offset in lane.begins.items()}
                begins |= {str(position.ssp): position.offset for position in lane.final}
                read = dict.fromkeys(map(str, (*wholes(lane.ssps), *lane.broadcast)), 0)
                phase = "starting" if not lane.folder_epoch else "ended" if each.closing else "running"
                before = self.reports.get(lane.id)
                begun = (begin and phase == "running") or (before is not None and before.attempt.begun)
                self.reports[lane.id] = lane_report(
                    lane=lane.id,
                    phase=phase if begin or phase != "running" else "starting",
                    positions={ssp: begins.get(ssp, 0) + (10 if begun else 0) for ssp in read}
                    if phase != "starting"
                    else {},
                    folder_epoch=lane.folder_epoch or self.me.epoch,
                    begun=begun,
                    batch=lane.first_batch + 3,
                )
        return self.beat()


class Versions:
    """A job on a coordinator, whose versions a user replaces."""

    def __init__(self, counts: dict[str, int], pattern: bool = False) -> None:
        self.counts, self._pattern = counts, pattern
        self.store = Store("sqlite://")
        self.coordinator = Coordinator(
            self.store,
            Clock(),
            grace=1.0,
            first=iter(range(10**6, 10**9, 10**6)).__next__,
            counting=lambda *_: {f"embedded/{stream}": count for stream, count in self.counts.items()},
        )

    def start(self, made: Job, code: str) -> StartRequest:
        surroundings = around(**self.counts)
        if self._pattern:
            surroundings = replace(surroundings, patterns=matching.matched(*self.counts))
        found, told = planning.make(made.graph, surroundings), version(made)
        program = Program(
            artifact=code * 64,
            file="j.py",
            settings={"job": {"warm_containers": 0, "artifact": "image"}},
            schemas=told.schemas,
        )
        return StartRequest(
            graph=made.graph,
            model=found.model,
            lanes=planning.lanes_of(found, 4, new_id),
            fingerprint=dict(told.fingerprint),
            program=program,
        )

    def begin(self, made: Job) -> None:
        self.coordinator.start(self.start(made, "a"))
        self.process = Advancing(self.coordinator, 1)
        self.process.work()

    def deploy(self, made: Job, code: str, relieve: bool = True) -> None:
        self.coordinator.deploy("j", DeployRequest(start=self.start(made, code)))
        if relieve:
            self.relieve()

    def rollback(self) -> int:
        told = self.coordinator.rollback("j", RollbackRequest())
        self.relieve()
        return told.version_of

    def relieve(self, begin: bool = True) -> None:
        new, old = Advancing(self.coordinator, self.coordinator.status("j").deployment), self.process
        old.work()
        new.ask()
        old.leave()
        assert new.ask() == "0"
        new.work(begin)
        self.process = new
        assert not begin or self.coordinator.status("j").state == "running"

    def grow(self, **counts: int) -> None:
        self.counts |= {stream.replace("_", "-"): count for stream, count in counts.items()}
        self.coordinator.expand("j", ExpandRequest())
        self.process.work()

    def stop(self) -> None:
        self.coordinator.stop("j")
        self.process.reports = {
            name: each.changed(phase=LanePhase.ENDED) for name, each in self.process.reports.items()
        }
        self.process.beat()
        self.process.leave()
        assert self.coordinator.status("j").state == "stopped"

    def begins(self, group: str = "outputs-embedded") -> dict[str, int]:
        """Where the lanes of a group began; -1 for a partition that a lane reads as its ``read`` says."""
        assert self.coordinator.status("j").state == "running"
        found = {}
        for lane in (each.lane for each in self.coordinator.status("j").lanes if each.lane.group == group):
            offsets: Mapping[object, int] = {**dict.fromkeys(lane.fresh, 0), **lane.begins}
            found |= {f"{ssp.stream}/{ssp.partition}": offsets.get(ssp, -1) for ssp in wholes(lane.ssps)}
        return found


def parts(stream: str, count: int) -> list[str]:
    return [f"{stream}/{p}" for p in range(count)]


def test_a_rollback_continues_in_partitions_that_came_after_the_version() -> None:
    its = Versions({"in": 2, "more": 2})
    its.begin(job())
    its.deploy(job("more"), "b")
    its.grow(**{"in": 4})
    assert its.rollback() == 1
    assert its.begins() == {"in/0": 30, "in/1": 30, "in/2": 10, "in/3": 10}
    before = {each.lane.id for each in its.coordinator.status("j").lanes}
    its.grow()
    assert {each.lane.id for each in its.coordinator.status("j").lanes} == before


def test_a_rollback_continues_in_streams_that_came_after_the_version() -> None:
    its = Versions({"in-a": 2}, pattern=True)
    its.begin(matching.job())
    its.deploy(matching.job(), "b")
    its.grow(in_b=2)
    assert its.rollback() == 1
    for group in ("outputs-embedded", "counted"):
        assert its.begins(group) == {"in-a/0": 30, "in-a/1": 30, "in-b/0": 10, "in-b/1": 10}
    assert {each.lane.matched["in"] for each in its.coordinator.status("j").lanes} == {("in-a", "in-b")}
    its.grow()
    assert its.begins() == {"in-a/0": 30, "in-a/1": 30, "in-b/0": 10, "in-b/1": 10}


def test_a_version_that_comes_back_twice_has_what_it_saw_the_second_time() -> None:
    """Its input grew while its second deployment ran. The version between reads only another input."""
    its = Versions({"in": 2, "more": 2, "else": 2})
    its.begin(job("more"))
    its.deploy(job("more", "else"), "b")
    assert its.rollback() == 1
    its.grow(more=4)
    its.deploy(job(), "c")
    assert its.rollback() == 1
    assert its.begins() == {**dict.fromkeys(parts("in", 2), 50), **dict.fromkeys(parts("more", 4), -1)}


@pytest.mark.parametrize("began", ["nothing", "new lanes are starting", "a new lane can't start"])
def test_a_version_that_is_taken_back_leaves_positions_where_they_were(began: str) -> None:
    """Even those of an input that it would no longer read."""
    its = Versions({"in": 2, "more": 2})
    its.begin(job("more"))
    its.deploy(job(), "b", relieve=False)
    if began != "nothing":
        its.relieve(begin=False)
    if began == "a new lane can't start":
        (lane,) = (each for each in its.store.lanes("j").values() if each.deployment == 2)
        its.process.fail(lane.id)
    else:
        its.coordinator.cancel("j")
    assert its.coordinator.status("j").deployment == 3
    its.relieve()
    assert its.begins() == dict.fromkeys((*parts("in", 2), *parts("more", 2)), 10)


def test_a_version_that_was_taken_back_by_a_later_deployment_of_the_former_one() -> None:
    """It grew after a rollback: its first deployment knows nothing of it."""
    its = Versions({"in": 2, "more": 2, "else": 2})
    its.begin(job("more"))
    its.deploy(job("more", "else"), "b")
    its.rollback()
    its.grow(more=4)
    its.deploy(job(), "c", relieve=False)
    its.coordinator.cancel("j")
    its.relieve()
    had = (*parts("in", 2), *parts("more", 2))
    assert its.begins() == {**dict.fromkeys(had, 40), "more/2": 10, "more/3": 10}


@pytest.mark.parametrize("between", [[job()], [job(), job("more", "else")]], ids=len)
def test_a_job_that_is_changed_back_before_a_change_began_goes_on_where_it_was(between: list[Job]) -> None:
    """As with ``anabranch run``: stopped, edited, run, stopped at once, edited back, and run again."""
    its = Versions({"in": 2, "more": 2, "else": 2})
    its.begin(job("more"))
    its.stop()
    for made, code in zip(between, "bc", strict=False):
        its.deploy(made, code, relieve=False)
        its.coordinator.stop("j")
        assert its.coordinator.status("j").state == "stopped"
    its.deploy(job("more"), "a", relieve=False)
    for _ in range(4):
        its.process = Advancing(its.coordinator, its.coordinator.running("j").deployment)
        its.process.work()
        if its.coordinator.status("j").state == "running":
            break
        its.process.leave()
    assert its.begins() == dict.fromkeys((*parts("in", 2), *parts("more", 2)), 10)


def test_a_live_job_takes_a_version_before_it_has_noticed_that_its_input_has_grown() -> None:
    its = Versions({"in": 2, "more": 2})
    its.begin(job())
    its.counts["in"] = 4
    its.deploy(job("more"), "b")
    assert its.begins() == {
        **dict.fromkeys(parts("in", 2), 10),
        "in/2": 0,
        "in/3": 0,
        **dict.fromkeys(parts("more", 2), -1),
    }


def test_a_stopped_job_takes_a_version_although_its_input_has_grown() -> None:
    its = Versions({"in": 2, "more": 2})
    its.begin(job())
    its.stop()
    its.counts["in"] = 4
    its.deploy(job("more"), "b", relieve=False)
    closing = Advancing(its.coordinator, 1)
    closing.work()
    closing.leave()
    its.process = Advancing(its.coordinator, 2)
    its.process.work()
    assert its.begins() == {
        **dict.fromkeys(parts("in", 2), 10),
        "in/2": 0,
        "in/3": 0,
        **dict.fromkeys(parts("more", 2), -1),
    }


def test_a_former_version_in_real_time_has_a_task_slot_for_each_partition_that_came_after_it() -> None:
    """Without one, Spark would never read the partition, and nobody would notice."""
    its = Versions({"in": 2, "more": 2})

    def with_cores(made: Job, code: str, cores: int) -> StartRequest:
        start = its.start(made, code)
        assert start.program is not None
        return msgspec.structs.replace(start, program=msgspec.structs.replace(start.program, cores=cores))

    its.coordinator.start(with_cores(job(), "a", 2))
    its.process = Advancing(its.coordinator, 1)
    its.process.work()
    its.counts["in"] = 8
    its.coordinator.deploy("j", DeployRequest(start=with_cores(job("more"), "b", 10)))
    its.relieve()
    assert its.rollback() == 1
    assert its.begins().keys() == {*parts("in", 8)}
    assert its.coordinator.running("j").program.cores == 8
