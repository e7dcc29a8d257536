"""Flights with event times."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from tests.integration.harness import Site

HOUR = timedelta(hours=1)


START = datetime(2013, 1, 1, tzinfo=UTC)


SCHEMA = "dest string, at timestamp"


Flight = dict[str, str]


Windows = dict[tuple[str, str], int]


def flights(seed: int, hours: int, each: int = 2) -> list[Flight]:
    """Flights in time order but for ten minutes of disorder."""
    dice = random.Random(seed)
    count = hours * each
    made = [START + HOUR * (n / each) - timedelta(minutes=dice.uniform(0, 9)) for n in range(count)]
    return [{"dest": dice.choice(["ATL", "BOS", "LAX"]), "at": at.isoformat()} for at in made]


def put(site: Site, partition: int, several: list[Flight]) -> None:
    site.put("flights", partition, several, [b"k"] * len(several))


def computed(several: Iterable[Flight]) -> Windows:
    starts = ((f["dest"], datetime.fromisoformat(f["at"]).replace(minute=0, second=0, microsecond=0)) for f in several)
    return dict(Counter((dest, start.strftime("%Y-%m-%dT%H:%M")) for dest, start in starts))


def written(site: Site) -> Windows:
    rows = [((v["dest"], v["window_start"][:16]), v["n"]) for v in site.values("hourly")]
    assert len(dict(rows)) == len(rows), "a window was written twice"
    return dict(rows)


def closed(expected: Windows, watermark: int) -> Windows:
    """The windows that end before the watermark."""
    until = datetime.fromtimestamp(watermark / 1000, UTC)
    return {
        (dest, start): n
        for (dest, start), n in expected.items()
        if datetime.fromisoformat(start).replace(tzinfo=UTC) + HOUR <= until
    }
