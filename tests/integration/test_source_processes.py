"""What a query's Python sources run in."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from anabranch.spark import source_client
from anabranch.spark.records import Limits
from anabranch.systems.embedded import spark as embedded
from anabranch.systems.embedded.system import EmbeddedSystem
from tests.integration.harness import Site


def started(java: int) -> list[list[str]]:
    """The commands of the processes that Spark's Java has started."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
            if parent == str(java):
                found.append((entry / "cmdline").read_text().split("\0"))
        except OSError:  # not one of a process, or it has ended
            continue
    return found


def clients(site: Site) -> int:
    gateway: Any = site.spark.sparkContext._gateway
    return sum(source_client.__file__ in words for words in started(gateway.proc.pid))


def test_a_querys_source_is_a_fork_and_ends_with_it(site: Site) -> None:
    site.log.create("in", 1)
    site.put("in", 0, [{"n": n} for n in range(5)])
    system, before = EmbeddedSystem(site.root / "log"), clients(site)
    frame = embedded.streamed(site.spark, system, "in", {0: 0}, {}, Limits(max_rows=10), bare=True)
    counted: list[int] = []
    writer = frame.writeStream.foreachBatch(lambda batch, _: counted.append(batch.count()))
    query = writer.option("checkpointLocation", str(site.root / "checkpoint")).start()
    try:
        query.processAllAvailable()
        assert sum(counted) == 5
        assert clients(site) == before + 1, "it has imported all by itself"
    finally:
        query.stop()
    end = time.monotonic() + 30
    while clients(site) > before and time.monotonic() < end:
        time.sleep(0.05)
    assert clients(site) == before
