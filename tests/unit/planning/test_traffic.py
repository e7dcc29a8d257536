"""What lanes read from which rack."""

from __future__ import annotations

from anabranch.model.lane import Lane
from anabranch.model.ssp import SSP
from anabranch.model.traffic import Traffic
from anabranch.planning import traffic
from anabranch.planning.assignment.assignor import Where

IN, ALL = "kafka/in", "kafka/all"


def ssp(stream: str, partition: int, bucket: int = -1) -> SSP:
    return SSP(system="kafka", stream=stream, partition=partition, key_bucket=bucket)


def lane(seat: str, *ssps: SSP, broadcast: tuple[SSP, ...] = ()) -> Lane:
    of = {"job": "j", "deployment": 1, "stage": "0", "group": "outputs", "tasks": ()}
    return Lane(id=f"0-{seat}", seat=seat, ssps=ssps, broadcast=broadcast, **of)  # type: ignore[arg-type]


LANES = [
    lane("0", ssp("in", 0, 0), ssp("in", 0, 1), ssp("in", 1, 0), broadcast=(ssp("all", 0),)),
    lane("1", ssp("in", 1, 1), ssp("in", 2)),
]
REPLICAS = {IN: {0: ("c", "a"), 1: ("b",), 2: ("c", "a")}, ALL: {0: ("a", "b")}}


def test_a_partition_comes_once_for_each_lane_from_its_own_rack_or_that_of_the_leader() -> None:
    found = traffic.of(LANES, Where(seats={"0": "a", "1": "b"}, partitions=REPLICAS))
    assert found == Traffic(read={"a": {"a": 2, "b": 1}, "b": {"b": 1, "c": 1}})
    assert (found.across, found.total) == (2, 5)


def test_nothing_is_said_where_a_rack_is_not_known() -> None:
    seats: dict[str, str | None] = {"0": "a", "1": "b"}
    unknown = [
        Where(seats={**seats, "1": None}, partitions=REPLICAS),
        Where(seats=seats, partitions={**REPLICAS, IN: {0: ("c", "a"), 1: ("b",)}}),
        Where(seats=seats, partitions={**REPLICAS, IN: {**REPLICAS[IN], 2: ("c", None)}}),
        Where(seats=seats),
    ]
    assert [traffic.of(LANES, where) for where in unknown] == [None] * 4
    coming = Where(seats=seats, partitions={ALL: REPLICAS[ALL]}, coming={IN})
    assert traffic.of(LANES, coming) == Traffic(read={"a": {"a": 1}, "b": {}})
