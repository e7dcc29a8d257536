"""A drain through a join, timers, a broadcast input and stages of both kinds leaves nothing, on either system."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.testing import DRAIN, Message, run
from anabranch.testing.broker import Cluster
from tests.integration.harness import PATIENCE
from tests.soak import emptied

pytestmark = [pytest.mark.usefixtures("spark"), pytest.mark.long]

PARTITIONS = 2
CUT = 40
COUNT = 100


def check(folder: Path, broker: str | None, factor: int) -> None:
    rows = {stream: [make(n) for n in range(COUNT)] for stream, make in emptied.MAKE.items()}
    messages = {
        stream: [Message(emptied.value_of(stream, row), key=row[0]) for row in its] for stream, its in rows.items()
    }
    inputs = {stream: [*its[:CUT], DRAIN, *its[CUT:], DRAIN] for stream, its in messages.items()}
    result = run(
        emptied.FILE,
        inputs,
        broker=broker,
        partitions=PARTITIONS,
        folder=folder,
        timeout=PATIENCE * 4,
        factor=factor,
        max_rows_per_batch=50,
    )
    parts = [{stream: its[:CUT] for stream, its in rows.items()}, {stream: its[CUT:] for stream, its in rows.items()}]
    emptied.check({stream: result[stream] for stream in emptied.OUTPUTS}, PARTITIONS, *parts)
    left = emptied.positions(folder)
    for name in emptied.BETWEEN:
        begins = {ssp.partition: at for ssp, at in left.items() if name.removeprefix(emptied.JOB) in ssp.stream}
        records = result.records(name)
        assert records
        assert not [each for each in records if each.offset >= begins[each.partition]], f"{name} would be read again"


@pytest.mark.parametrize("factor", [1, 2])
def test_on_the_embedded_log(tmp_path: Path, factor: int) -> None:
    check(tmp_path / "run", None, factor)


def test_in_kafka(tmp_path: Path, cluster: Cluster) -> None:
    check(tmp_path / "run", cluster.bootstrap_servers, factor=1)
