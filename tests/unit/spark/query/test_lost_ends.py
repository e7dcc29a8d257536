"""A batch that was planned after an input had lost its end is recognized."""

from __future__ import annotations

import msgspec
import pytest

from anabranch.event_time.progress import Progress
from anabranch.model.ssp import SSP
from anabranch.spark.query import lost_ends
from anabranch.spark.query.planned_batch import Batch
from tests.unit.coordinator.helpers import FLIGHTS, lane

RATES = SSP(system="kafka", stream="rates", partition=3)
BUCKET = SSP(system="embedded", stream="flights", partition=0, key_bucket=1)
READS = lane("0-1", broadcast=(RATES,))


@pytest.mark.parametrize(
    ("ends", "told"),
    [
        ({"flights": {0: 7}, "rates": {3: 5}}, None),
        ({"flights": {0: 8}, "rates": {3: 6, 4: 0}}, None),
        ({"flights": {0: 6}, "rates": {3: 5}}, "embedded/flights/0 ended at offset 6 when batch 2 was planned"),
        ({"flights": {0: 9}, "rates": {3: 0}}, "kafka/rates/3 ended at offset 0 when batch 2 was planned"),
        ({"rates": {3: 5}}, None),
    ],
)
def test_a_batch_that_ends_before_it_begins_is_told(ends: dict[str, dict[int, int]], told: str | None) -> None:
    batch = Batch(2, {"flights": {0: 7}, "rates": {3: 5, 4: 9}}, ends, Progress())
    found = lost_ends.of_batch(batch, READS, {})
    assert (found is None) is (told is None)
    if found is not None and told is not None:
        assert found.what.startswith(told)
        assert f"anabranch accept delays {told.split('/')[1]} " in found.cure


def test_a_partition_is_named_even_if_the_lane_reads_only_a_bucket_of_it() -> None:
    batch = Batch(2, {"flights": {0: 7}}, {"flights": {0: 6}}, Progress())
    found = lost_ends.of_batch(batch, msgspec.structs.replace(READS, ssps=(BUCKET,)), {})
    assert found is not None
    assert str(found).startswith(f"{FLIGHTS} ended at offset 6")


@pytest.mark.parametrize(("starting", "told"), [({}, False), ({FLIGHTS: 3}, False), ({FLIGHTS: 5000}, True)])
def test_the_first_batch_of_a_lane_begins_where_the_lane_does(starting: dict[SSP, int], told: bool) -> None:
    first = Batch(0, {}, {"flights": {0: 4900}}, Progress())
    assert (lost_ends.of_batch(first, READS, {str(ssp): at for ssp, at in starting.items()}) is not None) is told
