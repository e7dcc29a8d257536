"""A job that counts, with what must come of it."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from anabranch import Job
from tests.integration.harness import Deployed, Site


def counting(site: Site, partitions: int = 2, **settings: Any) -> Deployed:
    """A lane of running counts by key; the records of a partition have keys of its own."""
    site.log.create("in", partitions)
    job = Job("j")
    job.read("in", key="k string", schema="n int").agg(c="count(*)").write("out")
    return site.deployed(job, **settings)


def feed(site: Site, partition: int, start: int, count: int) -> None:
    keys = [f"p{partition}-{n % 3}".encode() for n in range(start, start + count)]
    site.put("in", partition, [{"n": n} for n in range(start, start + count)], keys)


def expected(rows: dict[int, int]) -> dict[str, int]:
    """Count by key after so many records of each partition."""
    return dict(Counter(f"p{p}-{n % 3}" for p, count in rows.items() for n in range(count)))


def counts(site: Site, stream: str = "out") -> dict[str, int]:
    """The last count of each key, and every update is one higher than what was before it."""
    last: dict[str, int] = {}
    for record in site.all_records(stream):
        value = json.loads(record["value"])
        assert value["c"] > last.get(value["k"], 0), "an older count came after a newer one"
        last[value["k"]] = value["c"]
    return last
