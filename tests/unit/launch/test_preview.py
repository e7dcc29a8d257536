"""Which offsets a preview reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

import numpy as np
import pyarrow as pa
import pytest

from anabranch.launch import preview
from anabranch.systems.contract import Range, Records, System

OFFSETS = {0: [3, 5, 7, 9], 1: [], 2: [0, 1, 4]}
ENDS = {0: 11, 1: 6, 2: 6}


class WithGaps:
    """A system whose streams have gaps in their offsets, as transactions leave them. Records come two by two."""

    def __init__(self) -> None:
        self.read_from: list[int] = []

    def starts(self, _: str) -> dict[int, int]:
        return {0: 2, 1: 6, 2: 0}

    def ends(self, _: str) -> dict[int, int]:
        return ENDS

    def read(self, _: str, partition: int, ranges: Sequence[Range]) -> Iterator[Records]:
        self.read_from.append(partition)
        for start, end in ranges:
            there = [offset for offset in OFFSETS[partition] if start <= offset < end]
            for at in range(0, len(there), 2):
                two = np.array(there[at : at + 2])
                yield two, pa.record_batch([pa.nulls(len(two))], ["key"])


@pytest.mark.parametrize(
    ("most", "ranges", "read_from"),
    [
        (1, {0: [(2, 4)], 1: [], 2: []}, [0]),
        (3, {0: [(2, 8)], 1: [], 2: []}, [0]),
        (4, {0: [(2, 10)], 1: [], 2: []}, [0]),
        (6, {0: [(2, 10)], 1: [], 2: [(0, 2)]}, [0, 2]),
        (20, {0: [(2, 10)], 1: [], 2: [(0, 5)]}, [0, 2]),
        (None, {0: [(2, 11)], 1: [], 2: [(0, 6)]}, []),
    ],
)
def test_gaps_in_offsets_do_not_count(most: int | None, ranges: dict[int, list[Range]], read_from: list[int]) -> None:
    system = WithGaps()
    assert preview.ranges(cast(System, system), "in", most) == ranges
    assert system.read_from == read_from
