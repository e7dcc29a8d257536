"""Dead letters as tests read them."""

from __future__ import annotations

from tests.integration.harness import Deployed, Record, Site

DEAD = "in-dead-letters"


def letters(site: Site, stream: str = DEAD) -> list[tuple[int, Record, dict[str, str]]]:
    """Partition, record and our headers of all dead letters."""
    found = []
    for partition in range(site.log.describe(stream).partitions):
        for record in site.records(stream, partition):
            ours = {
                header["key"].removeprefix("anabranch."): header["value"].decode()
                for header in record["headers"]
                if header["key"].startswith("anabranch.")
            }
            found.append((partition, record, ours))
    return found


def counted(run: Deployed) -> tuple[int, int]:
    reports = run.reports.values()
    return sum(r.progress.dead_letters for r in reports), sum(r.event_time.dropped for r in reports)
