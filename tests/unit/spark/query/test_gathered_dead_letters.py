"""What several Spark tasks tell of the records of one partition that they reject, brought together for one slot."""

from __future__ import annotations

from typing import Any, cast

import pytest

from anabranch.spark.query import dead_letters
from anabranch.spark.query.dead_letters import Rejected, WorkerDeadLetters

A, B = "map 'a'", "map 'b'"
ROW = (None, b"{}", "no")


def told(
    operator: str, source: int, partition: int, errors: dict[int, str], *derived: Any, identity: bytes = b""
) -> Rejected:
    return Rejected(operator, source, partition, errors, list(derived), identity)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ([], []),
        (
            [told(A, 0, 0, {1: "x"}), told(A, 0, 0, {2: "y"}), told(A, 0, 1, {1: "z"}), told(B, 0, 0, {1: "w"})],
            [told(A, 0, 0, {1: "x", 2: "y"}), told(A, 0, 1, {1: "z"}), told(B, 0, 0, {1: "w"})],
        ),
        # A task that ran twice, and two tasks.
        (
            [
                told(A, 0, 0, {}, (-5, *ROW), (-7, *ROW), identity=b"1"),
                told(A, 0, 0, {}, (-6, *ROW), identity=b"2"),
            ]
            * 2,
            [told(A, 0, 0, {}, (-5, *ROW), (-7, *ROW), (-6, *ROW))],
        ),
        # Two reads of one stream have one slot, a state partition has its own.
        ([told(A, 0, 0, {1: "x"}), told(A, 7, 0, {2: "y"})], [told(A, 7, 0, {1: "x", 2: "y"})]),
        (
            [told(A, -1, 0, {}, (0, *ROW)), told(A, 0, 0, {1: "x"})],
            [told(A, -1, 0, {}, (0, *ROW)), told(A, 0, 0, {1: "x"})],
        ),
    ],
)
def test_each_record_is_there_once_for_its_slot(given: list[Rejected], wanted: list[Rejected]) -> None:
    twice = 7 in {each.source for each in given}
    streams = {0: "in", 7: "in"} if twice else {0: "in"}
    aside = WorkerDeadLetters("job", streams, {}, {}, {}, (), cast(Any, None))
    assert dead_letters.gathered(aside, given) == wanted
