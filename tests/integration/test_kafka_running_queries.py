"""Queries that a test looks at while they run, on a real broker: in real time, with refreshed slots, and with an input
that has lost its end."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from pyspark.sql.streaming.query import StreamingQuery

from anabranch import Job
from anabranch.config import StreamSettings
from anabranch.container.checkpoint.folder import Folder
from tests.integration.harness import PATIENCE, KafkaSite
from tests.integration.test_kafka_jobs import filtering, numbers
from tests.support import kafka_peers


def test_in_real_time_records_come_out_while_the_batch_goes_on(kafka: KafkaSite) -> None:
    """A lane that is stopped in its batch does that again: nothing is lost. In batches, it goes on from there."""
    source, output = kafka.create("in", 1), f"{kafka.name}-out"
    run = kafka.deployed(filtering(kafka, source), trigger="real-time", on_error="drop", interval="5 seconds")
    (lane,) = run.lanes
    folder = str(kafka.root / "lane")
    query = run.query(lane, folder).start()
    kafka.put(source, 0, [{"n": n} for n in range(10)] + [b"{broken"], [b"k"] * 11)
    _until(query, lambda: numbers(kafka, output) == [0, 2, 4, 6, 8])
    assert Folder(kafka.spark, folder).committed() < 0, "they came out at the end of a batch"
    _until(query, lambda: Folder(kafka.spark, folder).committed() >= 0)
    kafka.put(source, 0, [{"n": 10}], [b"k"])
    _until(query, lambda: 10 in numbers(kafka, output))
    query.stop()

    until = dict.fromkeys(lane.ssps, 13)
    kafka.put(source, 0, [{"n": 12}], [b"k"])
    batches = run.query(lane, folder, until).start(last=Folder(kafka.spark, folder).batch(0))
    _until(batches, lambda: 12 in numbers(kafka, output))
    batches.stop()
    assert set(numbers(kafka, output)) == {0, 2, 4, 6, 8, 10, 12}
    assert numbers(kafka, output)[:6] == [0, 2, 4, 6, 8, 10]


@pytest.mark.parametrize("batches", [False, True])
def test_in_real_time_rows_without_a_key_do_not_reach_the_next_stage(kafka: KafkaSite, batches: bool) -> None:
    source, job = kafka.create("in", 1), Job(f"{kafka.name}-job")
    rows = job.read(source, key="k string", schema="dest string").partition_by("dest", name="by-dest")
    rows.where("true").write(f"{kafka.name}-out")
    run = kafka.deployed(job, trigger="real-time", on_error="drop", on_null_key="drop", interval="5 seconds")
    (lane,) = [lane for lane in run.lanes if lane.stage == "0"]
    kafka.put(source, 0, [{"dest": None}, {"dest": "A"}], [b"k"] * 2)
    query = run.query(lane, str(kafka.root / "lane"), {ssp: 2 for ssp in lane.ssps if batches}).start()
    between = f"{job.name}-by-dest-1"
    _until(query, lambda: bool(kafka.all_records(between)))
    query.stop()
    assert [record["key"] for record in kafka.all_records(between)] == [b"A"]


def test_slots_that_are_refreshed_meanwhile_go_on(kafka: KafkaSite) -> None:
    source, output = kafka.create("in", 1), f"{kafka.name}-out"
    run = kafka.deployed(filtering(kafka, source))
    (lane,) = run.lanes
    lane_query = run.query(lane, str(kafka.root / "lane"))
    query = lane_query.start()
    for n in (2, 4, 6):
        kafka.put(source, 0, [{"n": n}], [b"k"])
        _until(query, lambda n=n: n in numbers(kafka, output))  # type: ignore[misc]
        lane_query.outputs.refresh()
    query.stop()
    assert numbers(kafka, output) == [2, 4, 6]


def test_an_input_that_has_lost_its_end_fails_the_query_even_if_lost_records_may_be_skipped(kafka: KafkaSite) -> None:
    """Spark would move the lane's position back without a word."""
    source, output = kafka.create("in", 1), f"{kafka.name}-out"
    skipping = {source: StreamSettings(on_data_loss="earliest")}
    run = kafka.deployed(filtering(kafka, source), kafka.settings().model_copy(update={"streams": skipping}))
    (lane,) = run.lanes
    folder = Folder(kafka.spark, str(kafka.root / "lane"))
    kafka.put(source, 0, [{"n": n} for n in range(6)], [b"k"] * 6)
    query = run.query(lane, folder.uri).start()
    _until(query, lambda: numbers(kafka, output) == [0, 2, 4] and not folder.pending)
    query.stop()

    kafka_peers.delete(kafka.system.settings.bootstrap_servers, source)
    kafka.create("in", 1)
    kafka.put(source, 0, [{"n": 8}, {"n": 9}], [b"k"] * 2)
    again = run.query(lane, folder.uri).start(last=folder.batch(folder.committed()))
    end = time.monotonic() + PATIENCE
    while again.isActive:
        assert time.monotonic() < end
        time.sleep(0.05)
    told = f"kafka/{source}/0 ended at offset 2 when batch {folder.planned()} was planned"
    assert told in str(again.exception())
    assert folder.pending
    assert numbers(kafka, output) == [0, 2, 4]


def _until(query: StreamingQuery, condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert query.isActive, query.exception()
        assert time.monotonic() < end
        time.sleep(0.05)
