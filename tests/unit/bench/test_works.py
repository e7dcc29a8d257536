"""What ``python -m bench.peers`` compares of what its sides wrote."""

from __future__ import annotations

import pytest
from bench.support.works import summary

ONE, OTHER = (b"N1", b'{"flights":1,"total":5}'), (b"N2", b'{"flights":1,"total":7}')


def test_the_order_of_records_does_not_matter() -> None:
    assert summary("filter", [ONE, OTHER]) == summary("filter", [OTHER, ONE])


@pytest.mark.parametrize(
    "records",
    [
        pytest.param([ONE], id="one is missing"),
        pytest.param([ONE, OTHER, OTHER], id="one comes twice"),
        pytest.param([ONE, ONE], id="one in the other's place"),
        pytest.param([ONE, (b"N2", b'{"flights":1,"total":8}')], id="another value"),
        pytest.param([ONE, (b"N3", OTHER[1])], id="another key"),
    ],
)
@pytest.mark.parametrize("work", ["filter", "count"])
def test_what_differs_is_seen(work: str, records: list[tuple[bytes, bytes]]) -> None:
    assert summary(work, records) != summary(work, [ONE, OTHER])


def test_of_running_counts_the_last_of_each_key_counts() -> None:
    """Sides write an update for each message, or for each key and batch."""
    later = (b"N1", b'{"total":9,"flights":2}')
    count, found = summary("count", [ONE, later, OTHER])
    assert count == 3
    assert found == summary("count", [OTHER, (b"N1", b'{"flights":2,"total":9}')])[1]
    assert found != summary("count", [later, ONE, OTHER])[1]


@pytest.mark.parametrize(
    "value",
    [
        b'{"start":1356998400,"flights":5}',
        b'{"tailnum":"N1","window_start":"2013-01-01T00:00:00.000Z","window_end":"2013-01-01T00:00:10Z","flights":5}',
        b'{"window":{"start":"2013-01-01T00:00:00.000Z","end":"2013-01-01T00:00:10.000Z"},"flights":5}',
        b'{"window":{"start":"2013-01-01T01:00:00.000+01:00"},"flights":5}',
    ],
)
def test_windows_are_the_same_however_a_side_says_when_they_start(value: bytes) -> None:
    assert summary("windows", [(b"N1", value)]) == summary("windows", [(b"N1", b'{"start":1356998400,"flights":5}')])
    assert summary("windows", [(b"N1", value)]) != summary("windows", [(b"N1", b'{"start":1356998410,"flights":5}')])
