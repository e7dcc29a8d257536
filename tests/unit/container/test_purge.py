"""What of an intermediate stream every lane has behind it."""

from __future__ import annotations

import pytest

from anabranch.container.purge import behind
from anabranch.model.lane import Lane
from anabranch.model.ssp import SSP
from anabranch.protocol.lane_report import LanePhase, LaneReport


def lane(name: str, held: dict[str, int], batch: int = 3, more: tuple[str, ...] = ()) -> tuple[Lane, LaneReport]:
    ssps = tuple(SSP.parse(text) for text in (*held, *more))
    record = Lane(id=name, job="j", deployment=1, stage="1", group="g", seat="0", tasks=(), ssps=ssps)
    return record, LaneReport(lane=name, phase=LanePhase.RUNNING, batch=batch, positions=held)


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
