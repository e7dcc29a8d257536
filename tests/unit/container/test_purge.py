"""What of an intermediate stream every lane has behind it."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch import Job
from anabranch.config import Settings
from anabranch.config.systems import EmbeddedSettings, SystemsSettings
from anabranch.container.purge import Purge, behind
from anabranch.model.lane import Lane
from anabranch.model.ssp import SSP
from anabranch.operators.rules import is_boundary
from anabranch.planning import stages
from anabranch.protocol.lane_report import LanePhase, LaneReport
from anabranch.systems.embedded import LaneWriter, Log
from anabranch.systems.systems import Systems
from tests.support.reports import lane_report
from tests.unit.systems.embedded.helpers import put


def lane(name: str, held: dict[str, int], batch: int = 3, more: tuple[str, ...] = ()) -> tuple[Lane, LaneReport]:
    ssps = tuple(SSP.parse(text) for text in (*held, *more))
    record = Lane(id=name, job="j", deployment=1, stage="1", group="g", seat="0", tasks=(), ssps=ssps)
    return record, lane_report(lane=name, phase=LanePhase.RUNNING, batch=batch, positions=held)


CASES = [
    ("one lane", [lane("a", {"kafka/s/0": 5, "kafka/s/1": 7})], {"s": {0: 5, 1: 7}}),
    ("the one that is behind", [lane("a", {"kafka/s/0": 5}), lane("b", {"kafka/s/0": 3})], {"s": {0: 3}}),
    ("buckets", [lane("a", {"kafka/s/0": 5}, more=("kafka/s/0#1",))], {"s": {0: 5}}),
    ("without a position", [lane("a", {"kafka/s/0": 5}, more=("kafka/s/1",))], {"s": {0: 5}}),
    ("one that has none of another's", [lane("a", {"kafka/s/0": 5}), lane("b", {}, more=("kafka/s/0",))], {"s": {}}),
    ("no batch yet", [lane("a", {"kafka/s/0": 5}, batch=-1)], {}),
    ("other streams", [lane("a", {"kafka/s/0": 5, "kafka/t/0": 9})], {"s": {0: 5}}),
    ("none", [], {}),
]


@pytest.mark.parametrize(("lanes", "expected"), [each[1:] for each in CASES], ids=[each[0] for each in CASES])
def test_what_is_behind_all_lanes(lanes: list[tuple[Lane, LaneReport]], expected: dict[str, dict[int, int]]) -> None:
    assert behind(lanes, {"s"}, {("1", "g"): {"s", "t"}}) == expected


def test_what_had_been_read_a_minute_ago_is_deleted(tmp_path: Path) -> None:
    """Not what was read last: after a power cut, a lane may read that once more."""
    job = Job("j")
    job.read("in", schema="d string").partition_by("d").agg(c="count(*)").write("out")
    (stream,) = [stages.stream_of(job.graph, node) for node in job.graph.nodes if is_boundary(node)]
    log = Log(tmp_path)
    log.create(stream, 1)
    writer = LaneWriter(log, "j", "writer", 1)
    for batch in range(4):
        put(writer, log, stream, 0, batch, b"x")
    settings = Settings(systems=SystemsSettings(embedded=EmbeddedSettings(root=tmp_path)))
    now = 0.0
    purge = Purge(job.graph, Systems(settings), lambda: now)
    starts = []
    for at, position in ((1, 1), (61, 2), (100, 3), (122, 4), (183, 4)):
        now = float(at)
        reader, report = lane("a", {f"embedded/{stream}/0": position})
        purge.note(reader)
        purge.turn([(reader, report)])
        starts.append(log.starts(stream)[0].offset)
    assert starts == [0, 0, 0, 2, 4 - 1], "the last entry always stays"
