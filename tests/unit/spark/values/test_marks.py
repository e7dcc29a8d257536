"""Where faulty records are looked for once more: never less than where they are, and little beyond."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from anabranch.spark.values.decoding import Marks, marked

RANGES = st.dictionaries(
    st.integers(0, 70), st.tuples(st.integers(0, 300_000), st.integers(0, 200_000)).map(lambda r: (r[0], sum(r)))
)


@given(RANGES, st.data())
def test_a_marked_record_is_found_again(ranges: dict[int, tuple[int, int]], data: st.DataObject) -> None:
    filled = [p for p, (first, end) in ranges.items() if end > first]
    if not filled:
        assert marked(-1, ranges) == {}
        return
    partition = data.draw(st.sampled_from(filled))
    first, end = ranges[partition]
    offset = data.draw(st.integers(first, end - 1))
    found = marked(1 << (offset // 1000 + partition) % 30, ranges)
    assert any(begin <= offset < stop for begin, stop in found[partition])
    for p, several in found.items():
        assert all(ranges[p][0] <= begin < stop <= ranges[p][1] for begin, stop in several)
        assert all(before[1] < after[0] for before, after in pairwise(several))
    looked = sum(stop - begin for several in found.values() for begin, stop in several)
    assert looked <= sum(-(-(end - first) // 30_000) * 1000 + 1000 for first, end in ranges.values())


def test_everything_marked_is_everything() -> None:
    ranges = {0: (5, 5), 1: (1, 250_001), 2: (999, 1001)}
    assert marked(2**30 - 1, ranges) == {1: [(1, 250_001)], 2: [(999, 1001)]}
    assert marked(0, ranges) == {}


def test_nothing_observed_is_nothing_marked() -> None:
    assert Marks.of({}) == Marks.of({"marked": None}) == Marks(0, 0)
    assert Marks.of({"marked": 2**29}) == Marks(2**29, 0)
    assert Marks.of({"marked": 2**59 + 1}) == Marks(1, 2**29)
