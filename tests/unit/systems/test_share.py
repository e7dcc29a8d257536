"""How a batch's rows are shared out between partitions."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from anabranch.systems.source import share

# Partition -> (position, rows available); a position may lie beyond the end where a limit was set before it.
HELD = st.dictionaries(st.integers(0, 40), st.tuples(st.integers(0, 1000), st.integers(-5, 60)), min_size=1, max_size=9)
MOST = st.integers(1, 300)


def taken(held: dict[int, tuple[int, int]], most: int) -> dict[int, int]:
    start = {p: at for p, (at, _) in held.items()}
    ends = {p: at + rows for p, (at, rows) in held.items()}
    result = share(start, ends, most)
    assert result.keys() == start.keys()
    return {p: result[p] - start[p] for p in start}


@given(HELD, MOST)
def test_never_more_than_the_limit_and_never_beyond_an_end(held: dict[int, tuple[int, int]], most: int) -> None:
    rows = taken(held, most)
    assert sum(rows.values()) <= most
    assert all(0 <= rows[p] <= max(0, available) for p, (_, available) in held.items())


@given(HELD, MOST)
def test_nothing_is_left_while_the_limit_allows_it(held: dict[int, tuple[int, int]], most: int) -> None:
    available = sum(max(0, rows) for _, rows in held.values())
    assert sum(taken(held, most).values()) == min(most, available)


@given(HELD, MOST)
def test_who_gets_less_than_another_gets_all_it_has(held: dict[int, tuple[int, int]], most: int) -> None:
    rows = taken(held, most)
    largest = max(rows.values())
    for p, (_, available) in held.items():
        assert rows[p] == max(0, available) or rows[p] >= largest - 1


@given(HELD, MOST)
@example({0: (0, 50), 1: (0, 50), 2: (0, 50)}, 1)
def test_every_partition_is_read_to_its_end(held: dict[int, tuple[int, int]], most: int) -> None:
    position = {p: at for p, (at, _) in held.items()}
    ends = {p: at + rows for p, (at, rows) in held.items()}
    left = sum(max(0, rows) for _, rows in held.values())
    for _ in range(-(-left // most)):
        position = share(position, ends, most)
    assert all(position[p] == max(at, ends[p]) for p, (at, _) in held.items())


@given(HELD, MOST)
def test_with_fewer_rows_than_partitions_the_fullest_go_first(held: dict[int, tuple[int, int]], most: int) -> None:
    """So what waits longest for its turn is what holds least, and none waits once the others are down to as much."""
    rows = taken(held, most)
    waiting = [available for p, (_, available) in held.items() if available > 0 and not rows[p]]
    assert max(waiting, default=0) <= min((held[p][1] for p in rows if rows[p]), default=0)
    assert not waiting or len(waiting) + sum(rows.values()) > most


def test_what_one_partition_can_t_use_goes_to_the_others() -> None:
    assert taken({0: (7, 1), 1: (0, 100), 2: (0, 100)}, 21) == {0: 1, 1: 10, 2: 10}
