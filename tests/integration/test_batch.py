"""``preview`` and ``to_dataframe``: what a job reads and would write, as batches, with nothing changed."""

from __future__ import annotations

import time
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from anabranch import Job
from anabranch.errors import GraphError, NotFoundError, UsageError
from tests.integration.harness import Site

ROWS = [{"n": n, "d": f"d{n % 2}"} for n in range(6)]


@pytest.fixture
def config(site: Site) -> Path:
    site.log.create("in", 2)
    site.put("in", 0, ROWS[:4], [b"a", b"b", b"a", b"b"])
    site.put("in", 1, ROWS[4:], [b"c", b"c"])
    path = site.root / "anabranch.toml"
    path.write_text('[systems.embedded]\nroot = "log"\n')
    return path


def files(site: Site) -> set[Path]:
    return set(site.root.rglob("*"))


def counting() -> Job:
    job = Job("j")
    rows = job.read("in", key="k string", schema="n int, d string")
    rows.where("n > 2").map(lambda message: {**message, "d": message["d"].upper()}).write("big")
    rows.agg(c="count(*)").write("by-key")
    rows.partition_by("d").agg(c="count(*)", s="sum(n)").write("by-d")
    table = rows.join_table(lambda spark: spark.createDataFrame([("d0", 7)], "d string, x int"), on="d")
    table.write("joined-table")
    return job


@pytest.mark.long
def test_a_stream_that_is_read_is_shown_as_its_read_declares_it(site: Site, config: Path) -> None:
    job = counting()
    before = files(site)
    assert job.preview("in", 5, config=config) == [
        {"n": n, "d": f"d{n % 2}", "k": k} for n, k in enumerate(["a", "b", "a", "b", "c"])
    ]
    assert files(site) == before


@pytest.mark.long
def test_what_would_be_written_is_computed_on_all_that_is_there(site: Site, config: Path) -> None:
    job = counting()
    before = files(site)

    def rows(stream: str) -> list[dict[str, Any]]:
        return sorted((r.asDict() for r in job.to_dataframe(site.spark, stream, config=config).collect()), key=str)

    assert rows("big") == [{"n": n, "d": f"D{n % 2}", "k": k} for n, k in ((3, "b"), (4, "c"), (5, "c"))]
    assert rows("by-d") == [{"d": "d0", "c": 3, "s": 6}, {"d": "d1", "c": 3, "s": 9}]
    assert rows("by-key") == [{"k": "a", "c": 2}, {"k": "b", "c": 2}, {"k": "c", "c": 2}]
    assert len(rows("j-by-d-1")) == 6
    assert rows("joined-table") == [{"n": n, "d": "d0", "k": k, "x": 7} for n, k in ((0, "a"), (2, "a"), (4, "c"))]
    assert len(job.preview("big", 2, config=config)) == 2
    assert files(site) == before


@pytest.mark.long
def test_a_key_of_two_partitions_has_the_states_that_it_has_in_the_job(site: Site, config: Path) -> None:
    site.put("in", 1, [{"n": 7}], [b"a"])
    found = counting().to_dataframe(site.spark, "by-key", config=config).collect()
    assert sorted(row["c"] for row in found if row["k"] == "a") == [1, 2]


def test_branches_broadcasts_and_the_only_output(site: Site, config: Path) -> None:
    site.log.create("names", 1)
    site.put("names", 0, [{"n": 100}])
    job = Job("j")
    rows = job.read("in", schema="n int").where("n < 2")
    rows.merge(job.read("names", schema="n int", broadcast=True)).write("out")
    rows.select("n", "n * 2 as twice").write("out")
    found = [row.asDict() for row in job.to_dataframe(site.spark, config=config).collect()]
    expected = [(0, None), (1, None), (100, None), (100, None), (0, 0), (1, 2)]
    assert sorted(map(str, found)) == sorted(str({"n": n, "twice": twice}) for n, twice in expected)


def test_times_are_shown_in_utc_at_any_depth_and_at_the_ends_of_time(
    site: Site, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    schema = (
        "at timestamp, local timestamp_ntz, day date, of array<timestamp>, m map<string,timestamp>, "
        "s struct<at: timestamp, price: decimal(10, 2), raw: binary>"
    )
    texts = ["0001-01-01T00:00:00Z", "2013-01-31T05:29:00.123456Z", "9999-12-31T23:59:59.999999Z", None]
    moments = [None if text is None else datetime.fromisoformat(text) for text in texts]
    rows = [
        {
            "at": text,
            "local": text and text[:-1],
            "day": text and text[:10],
            "of": [text, None],
            "m": {"a": text},
            "s": {"at": text, "price": 1.5, "raw": "eA=="},
        }
        for text in texts
    ]
    site.log.create("times", 1)
    site.put("times", 0, [*rows, {"s": None}])
    job = Job("j")
    read = job.read("times", schema=schema)
    read.write("out")
    read.where("at is not null").select("map(at, struct(at)) as m").write("keyed")
    expected: list[dict[str, Any]] = [
        {
            "at": moment,
            "local": moment and moment.replace(tzinfo=None),
            "day": moment and moment.date(),
            "of": [moment, None],
            "m": {"a": moment},
            "s": {"at": moment, "price": Decimal("1.50"), "raw": b"x"},
        }
        for moment in moments
    ]
    expected.append(dict.fromkeys(expected[0]))
    try:
        assert job.preview("times", config=config) == job.preview("out", config=config) == expected
        assert job.preview("keyed", config=config) == [{"m": {each: {"at": each}}} for each in moments if each]
    finally:
        monkeypatch.undo()
        time.tzset()


def test_what_cannot_be_shown(site: Site, config: Path) -> None:
    job = counting()
    with pytest.raises(UsageError, match="neither reads nor writes 'ni'\n  its streams: in, big, by-key, "):
        job.preview("ni", config=config)
    with pytest.raises(UsageError, match="writes 4 streams: big, by-key, by-d, joined-table\n  name one"):
        job.to_dataframe(site.spark, config=config)
    with pytest.raises(UsageError, match="doesn't write 'in'"):
        job.to_dataframe(site.spark, "in", config=config)
    with pytest.raises(NotFoundError, match="no configuration file"):
        job.preview("in", config=site.root / "nowhere.toml")
    lost = Job("j")
    lost.read("lost", schema="n int").write("out")
    with pytest.raises(NotFoundError, match="there is no stream 'lost'"):
        lost.preview("lost", config=config)
    wrong = Job("j")
    wrong.read("in", schema="n int").where("m > 1").write("out")
    with pytest.raises(GraphError, match=r"where 'where' .*`m`"):
        wrong.to_dataframe(site.spark, config=config)
