"""An input that is bound to a pattern: streams come to it while the job runs, and while it is stopped."""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from anabranch import Job
from anabranch.config import CoordinatorSettings, StreamSettings
from anabranch.coordinator.store import Store
from anabranch.grouping import expansion
from anabranch.launch import loading
from anabranch.model.hashing import bucket, partition_for
from anabranch.testing.incarnation import Incarnation
from tests.integration.harness import Site

KEYS, FACTOR = 9, 2
PATIENCE = 400


class Trips:
    """A job that counts by key, over the streams of a pattern and one more, and writes down all that it sees."""

    def __init__(self, site: Site) -> None:
        self.site, self.put = site, list[int]()
        self.name = getattr(site, "name", "embedded")
        self.job = Job(f"{self.name}-job")
        trips = self.job.read("trips", key="k string", schema="n int")
        trips.where("n >= 0").write(self.of("seen"))
        both = trips.merge(self.job.read(self.of("other"), key="k string", schema="n int"))
        both.agg(n="count(*)", name="counted").write(self.of("counts"))
        settings = site.settings(max_rows_per_batch=30, on_error="dead-letter", factor=FACTOR)
        self.store = f"sqlite:///{site.root / 'coordinator.db'}"
        bound = {self.of(output): StreamSettings(task_header=True) for output in ("seen", "counts")}
        bound["trips"] = StreamSettings(pattern=f"{self.name}-.*")
        self.settings = settings.model_copy(
            update={"coordinator": CoordinatorSettings(store=self.store), "streams": bound}
        )

    def of(self, name: str) -> str:
        """An output matches the pattern, too, and so does the stream of dead letters: the job never reads its own."""
        return f"{self.name}-{name}"

    def come(self, stream: str, numbers: Iterable[int]) -> None:
        self.site.system.create(self.of(stream), 2)
        self.more(stream, numbers)

    def more(self, stream: str, numbers: Iterable[int]) -> None:
        rows = list(numbers)
        self.put += rows
        for partition in range(2):
            mine = [n for n in rows if partition_for(key(n), 2) == partition]
            self.site.put(self.of(stream), partition, [{"n": n} for n in mine], [key(n) for n in mine])

    def incarnation(self) -> Incarnation:
        file, deadline = loading.of(self.job), time.monotonic() + PATIENCE
        return Incarnation(self.site.spark, file, self.settings, deadline)


def key(number: int) -> bytes:
    return f"k{number % KEYS}".encode()


def task(key: bytes) -> bytes:
    """The name of the one that has a key, whatever stream it is in."""
    return f"Partition_{partition_for(key, 2)}-{bucket(key, 0, FACTOR)}-{FACTOR}".encode()


@pytest.mark.long
@pytest.mark.parametrize("where", ["site", "kafka"])
def test_streams_come_to_a_pattern(where: str, request: pytest.FixtureRequest) -> None:
    site: Site = request.getfixturevalue(where)
    trips = Trips(site)
    trips.come("a", range(80))
    trips.come("other", range(1000, 1040))

    def comes() -> None:
        trips.come("b", range(80, 140))
        site.put(trips.of("b"), 0, [b"no JSON"], [b"k1"])

    trips.incarnation().run_and_expand(comes)
    for stream, first in (("a", 140), ("b", 160), ("other", 1040)):
        trips.more(stream, range(first, first + 20))
    trips.come("c", range(180, 220))  # while it is stopped
    trips.incarnation().run()

    seen = Counter(value["n"] for value in site.values(trips.of("seen")))
    assert seen == Counter(n for n in trips.put if n < 1000)
    counts: dict[bytes, list[int]] = defaultdict(list)
    for record in site.all_records(trips.of("counts")):
        counts[record["key"]].append(json.loads(record["value"])["n"])
    for each, rising in counts.items():
        assert rising == sorted(set(rising)), f"{each!r} has two states"
    assert {each: rising[-1] for each, rising in counts.items()} == Counter(map(key, trips.put))
    (letter,) = site.all_records("trips-dead-letters")
    said: dict[str, Any] = {header["key"]: header["value"] for header in letter["headers"]}
    assert said["anabranch.stream"].decode() == trips.of("b")

    for output in ("seen", "counts"):
        for record in site.all_records(trips.of(output)):
            (header,) = record["headers"]
            its = key(json.loads(record["value"])["n"]) if output == "seen" else record["key"]
            assert header == {"key": "anabranch.task", "value": task(its)}

    store = Store(trips.store)
    (stage,) = store.model(trips.job.name, 1, 3).stages
    named = [f"{site.system.name}/{trips.of(stream)}" for stream in "abc"]
    assert stage.inputs == (named[0], f"{site.system.name}/{trips.of('other')}", *named[1:])
    assert [matched.streams for matched in stage.patterns.values()] == [tuple(map(trips.of, "abc"))]
    assert set(expansion.base_partitions(stage).values()) == {2}
    assert len(stage.tasks) == 2 * FACTOR
    store.close()


def test_a_notebook_sees_all_streams_of_a_pattern(site: Site, tmp_path: Path) -> None:
    trips = Trips(site)
    for stream, numbers in (("a", range(20)), ("b", range(20, 50)), ("other", range(1000, 1010))):
        trips.come(stream, numbers)
    config = tmp_path / "anabranch.toml"
    root = site.root / "log"
    config.write_text(f'[systems.embedded]\nroot = "{root}"\n[streams.trips]\npattern = "{trips.name}-.*"\n')
    rows = trips.job.to_dataframe(site.spark, trips.of("counts"), config=config).collect()
    assert {row["k"].encode(): row["n"] for row in rows} == Counter(map(key, trips.put))
    assert {row["n"] for row in trips.job.preview("trips", 100, config=config)} == set(range(50))
