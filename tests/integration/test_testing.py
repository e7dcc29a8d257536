"""``anabranch.testing``: rows in, rows out, through the real thing; and what its KILL leaves behind."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from anabranch import Job, tumbling
from anabranch.errors import GraphError, JobFailedError, OutOfTimeError
from anabranch.model.hashing import partition_for
from anabranch.spark.values import codec
from anabranch.systems.embedded import Log
from anabranch.testing import BATCH, KILL, Message, Pending, keys, run

pytestmark = pytest.mark.usefixtures("spark")


def delays() -> Job:
    job = Job("delays")
    flights = job.read("flights", key="tailnum string", schema="dest string, dep_delay int")
    flights.where("dep_delay >= 15").write("late-flights")
    flights.partition_by("dest").agg(flights="count(*)", worst="max(dep_delay)").write("by-dest")
    return job


def flight(number: int) -> dict[str, Any]:
    return {"tailnum": f"N{number % 3}", "dest": "MIA" if number % 2 else "SFO", "dep_delay": number}


FLIGHTS = [flight(number) for number in range(20)]


def test_rows_are_read_with_their_keys_and_come_out_as_rows() -> None:
    result = run(delays(), {"flights": FLIGHTS})
    late = result.records("late-flights")
    assert sorted(result["late-flights"], key=lambda row: row["dep_delay"]) == [flight(n) for n in range(15, 20)]
    assert {(record.partition, record.key) for record in late} == {
        (partition_for(key, 2), key) for key in (b"N0", b"N1", b"N2")
    }
    for key in (b"N0", b"N1", b"N2"):
        mine = [record.value["dep_delay"] for record in late if record.key == key]
        assert mine == sorted(mine)
    assert result.latest("by-dest", "dest") == {
        "SFO": {"dest": "SFO", "flights": 10, "worst": 18},
        "MIA": {"dest": "MIA", "flights": 10, "worst": 19},
    }
    assert len(result["delays-by-dest-1"]) == 20
    assert result.kills == ()


def test_a_message_says_what_a_row_cannot() -> None:
    at = datetime(2013, 1, 1, 5, tzinfo=UTC)
    job = Job("j")
    job.read("in", key="k string", schema="n int").write("out")
    rows = [
        Message({"n": 1}, key="a", headers={"trace": "x", "none": None}, timestamp=at, partition=1),
        Message(b'{"n": 2}', key=b"a", partition=0),
        Message({"k": "b", "n": 3}, partition=0),
        '{"n": 4}',
        Message({"n": 5}, key=None),
    ]
    result = run(job, {"in": rows}, partitions=3)
    found = {record.value["n"]: record for record in result.records("out")}
    assert (found[1].headers, found[1].timestamp) == ((("trace", b"x"), ("none", None)), at)
    assert {n: record.key for n, record in found.items()} == {1: b"a", 2: b"a", 3: b"b", 4: None, 5: None}


@pytest.mark.long
def test_a_kill_leaves_batches_that_are_published_and_not_committed_and_each_is_done_again(tmp_path: Path) -> None:
    """What is written is there once, by the first incarnation; the function, which promises less, sees it twice."""
    seen: list[tuple[str, int, int, int]] = []

    def note(df: DataFrame, lane: str, batch: int, epoch: int) -> None:
        seen.append((lane, batch, epoch, df.count()))

    job = delays()
    job.read("more", schema="n int").foreach_batch(note, name="note")
    more = [{"n": n} for n in range(6)]
    folder = tmp_path / "kept"
    result = run(
        job, {"flights": [*FLIGHTS[:12], KILL, *FLIGHTS[12:]], "more": [*more[:4], KILL, *more[4:]]}, folder=folder
    )

    (pending,) = result.kills
    lanes = {path.name for path in (folder / "lanes" / "delays").iterdir()}
    assert {each.lane for each in pending} == lanes
    assert len(lanes) == 3
    assert all(each.batch == each.committed + 1 for each in pending)

    (noted,) = (each for each in pending if each.lane == seen[0][0])
    first, again, *rest = seen
    assert first == (noted.lane, noted.batch, 1, 4)
    assert again == (noted.lane, noted.batch, 2, 4)
    assert [(batch > noted.batch, epoch, count) for _, batch, epoch, count in rest] == [(True, 2, 2)]

    log = Log(folder / "streams")
    for each in pending:
        if each.lane != noted.lane:
            assert epochs_of(log, each) == {1}, "it was published before the kill, and not again after it"
    assert Counter(row["dep_delay"] for row in result["late-flights"]) == dict.fromkeys(range(15, 20), 1)
    assert {dest: row["flights"] for dest, row in result.latest("by-dest", "dest").items()} == {"SFO": 10, "MIA": 10}
    assert [row["flights"] for row in result["by-dest"] if row["dest"] == "MIA"] == sorted(
        {row["flights"] for row in result["by-dest"] if row["dest"] == "MIA"}
    )


def epochs_of(log: Log, pending: Pending) -> set[int]:
    """The epochs under which a batch of a lane was published, anywhere."""
    found = set()
    for stream in log.streams():
        for number, tail in log.ends(stream).items():
            entries = (log.entry(stream, number, sequence) for sequence in range(tail.sequence + 1))
            marks = {(e.lane, e.batch, e.epoch) for e in entries if e is not None and e.kind == "data"}
            found |= {epoch for lane, batch, epoch in marks if (lane, batch) == (pending.lane, pending.batch)}
    return found


@pytest.mark.long
def test_a_kill_comes_in_the_last_of_several_batches_and_may_come_twice() -> None:
    job = Job("j")
    job.read("in", schema="n int").write("out")
    rows = [{"n": n} for n in range(10)]
    result = run(job, {"in": [*rows, KILL, KILL, {"n": 10}]}, max_rows_per_batch=4, partitions=1)
    assert result["out"] == [*rows, {"n": 10}]
    (first,), (second,) = result.kills
    assert first == second == Pending(first.lane, 2, 1)


@pytest.mark.long
def test_a_kill_does_not_wait_for_lanes_that_have_nothing_to_do() -> None:
    job = Job("j")
    job.read("in", schema="n int").where("n > 5").partition_by("n").write("out")
    result = run(job, {"in": [{"n": 1}, KILL, {"n": 6}, KILL]})
    assert [len(pending) for pending in result.kills] in ([1, 2], [2, 2]), "a new lane's first batch may be empty"
    assert result["out"] == [{"n": 6}]


@pytest.mark.long
def test_what_stands_before_batch_is_run_before_the_rest() -> None:
    job = Job("j")
    job.read("in", key="k string", schema="n int").agg(sum="sum(n)").write("out")
    rows = [{"k": "a", "n": 1}, {"k": "a", "n": 2}, BATCH, {"k": "a", "n": 3}, BATCH]
    assert run(job, {"in": rows})["out"] == [{"k": "a", "sum": 3}, {"k": "a", "sum": 6}]


def test_a_job_file_is_run_with_its_settings_and_the_modules_beside_it(tmp_path: Path) -> None:
    (tmp_path / "shouting.py").write_text("def loud(message):\n    return {'value': message['value'].upper()}\n")
    (tmp_path / "words.py").write_text(
        "from anabranch import Job\nimport shouting\n\njob = Job('words')\n"
        "job.read('words').map(lambda message: shouting.loud(message)).write('loud')\n"
    )
    (tmp_path / "anabranch.toml").write_text('[streams.words]\nformat = "string"\n[streams.loud]\nformat = "string"\n')
    assert run(tmp_path / "words.py", {"words": ["one", "two"]}, partitions=1)["loud"] == ["ONE", "TWO"]


def test_it_runs_on_an_embedded_log_whatever_the_file_says(tmp_path: Path) -> None:
    config = tmp_path / "anabranch.toml"
    config.write_text(
        '[job]\ntrigger = "real-time"\n[systems]\ndefault = "kafka"\n[systems.kafka]\nbootstrap_servers = "nowhere:1"\n'
        '[streams.in]\nsystem = "kafka"\ntopic = "theirs"\nformat = "string"\non_data_loss = "earliest"\n'
        '[streams.out]\nformat = "string"\ndelivery = "at-least-once"\n'
    )
    job = Job("j")
    job.read("in").write("out")
    result = run(job, {"in": ["a", KILL, "b"]}, config=config, partitions=1)
    assert result["out"] == ["a", "b"]


def test_errors_of_the_graph_come_as_they_are() -> None:
    job = Job("j")
    job.read("in", schema="n int").agg(c="count(*)").write("out")
    with pytest.raises(GraphError, match=r"agg 'agg' .* has no stage key"):
        run(job, {"in": []})
    job = Job("j")
    job.read("in", schema="n int").where("m > 1").write("out")
    with pytest.raises(GraphError, match=r"where 'where' .*`m`"):
        run(job, {"in": []})


def test_a_job_that_fails_raises_what_its_lane_says() -> None:
    job = Job("j")
    job.read("in", schema="n int").map(lambda message: {"n": 1 // message["n"]}).write("out")
    with pytest.raises(JobFailedError, match=r"(?s)job j failed: lane .*: map 'map' .* raised ZeroDivisionError.*fix"):
        run(job, {"in": [{"n": 0}, KILL]})
    assert run(job, {"in": [{"n": 1}]})["out"] == [{"n": 1}]


def test_what_is_put_aside_is_in_the_result() -> None:
    job = Job("j")
    job.read("in", schema="n int").map(lambda message: {"n": 1 // message["n"]}).write("out")
    rows = [{"n": 1}, KILL, "no JSON", {"n": 0}, {"n": 1}]
    result = run(job, {"in": rows}, on_error="dead-letter", partitions=1)
    assert result["out"] == [{"n": 1}, {"n": 1}]
    assert sorted(map(str, result["in-dead-letters"])) == sorted(["b'no JSON'", "{'n': 0}"])


@pytest.mark.long
def test_a_window_is_closed_by_what_comes_after_the_kill() -> None:
    job = Job("j")
    rows = job.read("in", key="k string", schema="at timestamp", event_time="at", watermark="0 seconds")
    rows.window(tumbling("1 hour")).agg(n="count(*)", emit="on_close").write("out")
    minutes = [{"k": "a", "at": f"2013-01-01T05:{minute:02}:00Z"} for minute in (0, 30, 59)]
    later = {"k": "a", "at": "2013-01-01T07:00:00Z"}
    result = run(job, {"in": [*minutes[:2], KILL, minutes[2], BATCH, later]}, partitions=1)
    assert [row["n"] for row in result["out"]] == [3]


def test_a_job_that_does_not_become_idle_is_out_of_time() -> None:
    with pytest.raises(OutOfTimeError, match="job 'delays' was not idle in time: "):
        run(delays(), {"flights": FLIGHTS}, timeout=0.5)


ROWS: list[tuple[str, dict[str, Any]]] = [
    ("k string", {"k": "Zoë"}),
    ("k int", {"k": -2}),
    ("k bigint", {"k": 2**40}),
    ("k boolean", {"k": True}),
    ("k double", {"k": 3}),
    ("k double, x float", {"k": -0.0, "x": -0.0}),
    ("k date", {"k": date(2013, 1, 1)}),
    ("k timestamp", {"k": datetime(2013, 1, 1, 5, tzinfo=UTC)}),
    ("k decimal(10,2)", {"k": Decimal("1.5")}),
    ("k decimal(10,2), n int", {"k": Decimal("-1E+3"), "n": 1}),
    ("k string, n int, at timestamp", {"k": 'a "b" /', "n": None, "at": datetime(2013, 1, 1, 5, tzinfo=UTC)}),
    ("`leg no` int, c string", {"leg no": 7, "c": "ü\n"}),
]


@pytest.mark.parametrize(("declared", "row"), ROWS, ids=[declared for declared, _ in ROWS])
def test_keys_are_the_bytes_that_spark_makes(spark: SparkSession, declared: str, row: dict[str, Any]) -> None:
    schema = codec.parse_schema(declared)
    texts = {name: value for name, value in row.items() if not isinstance(value, date)}
    texts |= {name: value.isoformat() for name, value in row.items() if isinstance(value, date)}
    texts |= {name: f"{value:f}" for name, value in row.items() if isinstance(value, Decimal)}
    by_json = spark.createDataFrame([(json.dumps(texts),)], "value string").select(
        codec.parse_json(codec.F.col("value"), schema)
    )
    made = by_json.select(codec.encode_key([(by_json[f"`{f.name}`"], f.dataType) for f in schema])).collect()
    fields = [(field.name, field.dataType.simpleString()) for field in schema]
    assert keys.encode(fields, row) == bytes(made[0][0])
