"""A coordinator lets streams come that match a job's pattern."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.container.checkpoint import offset_log
from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.store import Store
from anabranch.coordinator.streams.input_monitor import counted
from anabranch.errors import AnabranchError
from anabranch.model.job_model import Matched
from anabranch.protocol.commands import ExpandRequest
from anabranch.protocol.container import Registration
from anabranch.systems.embedded import EmbeddedSystem
from tests.unit.coordinator.helpers import Clock
from tests.unit.coordinator.inputs import Counts
from tests.unit.coordinator.workers import Worker
from tests.unit.planning.matching import matched, named, start


def test_a_coordinator_lets_streams_come() -> None:
    counts, clock = Counts(), Clock()
    counts.counts = named({"a": 2})
    coordinator = Coordinator(Store("sqlite://"), clock=clock, lease=10, grace=2, counting=counts)
    coordinator.start(start(in_a=2))
    worker = Worker(coordinator)
    worker.turns()
    counts.counts = {**named({"a": 2, "b": 2, "out": 1})}
    dry = coordinator.expand("j", ExpandRequest(dry=True))
    assert dry.partitions == named({"b": 2})
    coordinator.look()
    assert coordinator.status("j").inputs == named({"a": 2, "b": 2})
    worker.turns()
    status = coordinator.status("j")
    assert (status.state, status.generation) == ("running", 2)
    (why,) = [event.why for event in coordinator.events("j") if "running → changing" in event.what]
    assert why == "embedded/in-b is new, with 2 partitions"
    for each in status.lanes:
        assert set(map(str, each.lane.fresh)) == {"embedded/in-b/0", "embedded/in-b/1"}
        assert each.lane.dead_letters == {"in-a": "in-dead-letters", "in-b": "in-dead-letters"}
    counts.counts = named({"a": 2, "b": 2, "c": 4})
    clock.at += 60
    coordinator.look()
    (warning,) = coordinator.status("j").warnings
    assert "in-c is new and has 4 partitions" in warning
    counts.counts = named({"a": 2, "b": 0})
    clock.at += 60
    coordinator.look()
    (warning,) = coordinator.status("j").warnings
    assert "embedded/in-b is gone" in warning


def test_the_racks_of_streams_that_come_are_looked_up() -> None:
    counts, asked = Counts(), list[list[str]]()

    def racks(job: str, settings: Any, streams: Any) -> dict[str, Any]:
        asked.append(list(streams))
        return {}

    counts.counts = named({"a": 2, "b": 2})
    coordinator = Coordinator(Store("sqlite://"), clock=Clock(), lease=10, grace=2, counting=counts, locating=racks)
    coordinator.start(start(in_a=2))
    coordinator.register(Registration(job="j", execution="execution-1", host="here", pid=1, rack="a"))
    Worker(coordinator).turns()
    coordinator.expand("j", ExpandRequest(dry=True))
    coordinator.look()
    assert asked == [["embedded/in-a", "embedded/in-b"]] * 2


def test_systems_are_asked_for_all_that_match(tmp_path: Any) -> None:
    system = EmbeddedSystem(tmp_path)
    for stream, partitions in (("in-a", 2), ("in-b", 3), ("other", 1)):
        system.create(stream, partitions)
    given = {"systems": {"embedded": {"root": str(tmp_path)}}}
    found = counted("j", given, ["embedded/in-a", "embedded/in-z"], matched("in-a").values())
    assert found == {"embedded/in-a": 2, "embedded/in-b": 3, "embedded/in-z": 0}
    with pytest.raises(AnabranchError):
        counted("j", given, [], [Matched(system="nowhere", pattern=".*", streams=())])


def test_a_source_comes_into_an_entry_of_the_offset_log() -> None:
    lines = ["v1", '{"batchWatermarkMs": 0}', '{"in-a": {"0": 5}}', "-", '{"other": {"0": 1}}']
    wider = offset_log.parse("\n".join(lines)).with_source(1, {"in-b": {}})
    assert offset_log.format(wider).split("\n")[2:] == [lines[2], '{"in-b": {}}', *lines[3:]]
    assert wider.with_positions(wider.streams()["in-b"], {0: 7}).positions(1) == {0: 7}
