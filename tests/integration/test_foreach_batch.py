"""What a ``foreach_batch`` function does with its frame changes nothing of what is told of the batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame

from anabranch import Job
from tests.integration.harness import Deployed, Site

SEEN: dict[str, list[Any]] = {}


def a_part(df: DataFrame, lane: str, batch: int, epoch: int) -> None:
    SEEN.setdefault("a_part", []).append(len(df.limit(1).collect()))


def the_head(df: DataFrame, lane: str, batch: int, epoch: int) -> None:
    SEEN.setdefault("the_head", []).append([df.head() is not None, df.isEmpty()])


def twice(df: DataFrame, lane: str, batch: int, epoch: int) -> None:
    """As Spark's own guide has it: cached, used twice, freed; and then once more."""
    kept = df.persist()
    found = [kept.count(), len(kept.collect())]
    kept.unpersist()
    df.sparkSession.catalog.clearCache()
    SEEN.setdefault("twice", []).append([*found, df.count()])


def nothing(df: DataFrame, lane: str, batch: int, epoch: int) -> None:
    SEEN.setdefault("nothing", []).append(df.columns)


FUNCTIONS: list[Callable[..., None]] = [a_part, the_head, twice, nothing]


def picky(message: dict[str, Any]) -> dict[str, Any]:
    if message["n"] % 5 == 2:
        raise ValueError("not this one")
    return message


def deployed(site: Site, on_error: str) -> Deployed:
    """One read and lane for each function; of 20 records 4 are refused by ``picky``, and one can't be read."""
    job = Job("looked-at")
    for function in FUNCTIONS:
        stream = function.__name__
        site.system.create(stream, 2)
        for partition in range(2):
            numbers = range(10 * partition, 10 * partition + 10)
            rows: list[Any] = [{"n": n, "at": f"2020-01-01T00:{n:02}:00Z"} for n in numbers]
            site.put(stream, partition, rows, [b"k"] * 10)
        site.put(stream, 1, [b"no JSON"], [b"k"])
        read = job.read(stream, key="k string", schema="n int, at timestamp", event_time="at", watermark="1 minute")
        read.map(picky, name=f"picky-{stream}").foreach_batch(function, name=f"of-{stream}")
    return site.deployed(job, on_error=on_error, max_rows_per_batch=11)


@pytest.mark.long
def test_dead_letters_are_complete_and_once_whatever_a_function_looks_at(site: Site) -> None:
    SEEN.clear()
    run = deployed(site, "dead-letter")
    run.ran()
    for function in FUNCTIONS:
        letters = site.all_records(f"{function.__name__}-dead-letters")
        numbers = sorted(record["value"] for record in letters)
        wanted = [b"no JSON", *(b'{"n": %d, "at": "2020-01-01T00:%02d:00Z"}' % (n, n) for n in (2, 7, 12, 17))]
        assert numbers == sorted(wanted), function.__name__
    assert SEEN["a_part"] == [1] * len(SEEN["a_part"])
    assert sum(first for first, _, _ in SEEN["twice"]) == 16
    assert all(first == second == third for first, second, third in SEEN["twice"])


@pytest.mark.long
def test_what_is_dropped_is_counted_once_whatever_a_function_looks_at(site: Site) -> None:
    run = deployed(site, "drop")
    reports = run.ran()
    dropped = {lane.group: reports[lane.id].event_time.dropped for lane in run.lanes}
    assert dropped == {f"of-{f.__name__}": 5 for f in FUNCTIONS}


@pytest.mark.long
def test_state_goes_on_whatever_a_function_looks_at(site: Site) -> None:
    site.system.create("in", 1)
    site.put("in", 0, [{"n": n} for n in range(20)], [b"k%d" % (n % 5) for n in range(20)])
    seen: list[Any] = []

    def look(df: DataFrame, lane: str, batch: int, epoch: int) -> None:
        if batch == 3:
            seen.extend(sorted((row["k"], row["c"]) for row in df.collect()))
        elif batch % 2:
            df.limit(1).collect()

    job = Job("looked-at")
    job.read("in", key="k string", schema="n int").agg(c="count(*)").foreach_batch(look)
    site.deployed(job, max_rows_per_batch=5).ran()
    assert seen == [(f"k{n}", 4) for n in range(5)]
