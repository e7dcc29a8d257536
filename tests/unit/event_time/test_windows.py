"""Durations, and the windows that a time falls into."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch import Tumbling, tumbling
from anabranch.errors import GraphError
from anabranch.event_time import durations

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10 minutes", 10 * MINUTE),
        ("1 hour 30 minutes", 90 * MINUTE),
        ("1 week 2 days 3 hours 4 minutes 5 seconds 6 milliseconds", 9 * DAY + 3 * HOUR + 4 * MINUTE + 5 * SECOND + 6),
        ("1 Minute", MINUTE),
        ("  2   HOURS ", 2 * HOUR),
        ("90seconds", 90 * SECOND),
        ("1hour30minutes", 90 * MINUTE),
        ("30 minutes 1 hour", 90 * MINUTE),
        ("1 minute 1 minute", 2 * MINUTE),
        ("2 day", 2 * DAY),
        ("1 days", DAY),
        ("0 seconds", 0),
        ("007 seconds", 7 * SECOND),
    ],
)
def test_a_duration_is_milliseconds(text: str, expected: int) -> None:
    assert durations.parse(text) == expected


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        " ",
        "10",
        "minutes",
        "minutes 10",
        "10 m",
        "10 min",
        "1 month",
        "2 years",
        "1.5 hours",
        "-1 hour",
        "+1 hour",
        "1 hour, 30 minutes",
        "1 hour and 30 minutes",
        "1 hourss",
        "1 s",
        "PT1H",
        "1:30",
        "10 minutes 5",
        10,
        None,
        10.5,
        b"10 minutes",
    ],
)
def test_what_is_no_duration_is_told_how_one_is_written(wrong: object) -> None:
    with pytest.raises(ValueError, match="no duration") as caught:
        durations.parse(wrong)
    assert str(caught.value).startswith(f"{wrong!r} is no duration")
    assert "milliseconds, seconds, minutes, hours, days, weeks" in str(caught.value)
    assert "'10 minutes'" in str(caught.value)


@given(
    st.dictionaries(
        st.sampled_from(["millisecond", "second", "minute", "hour", "day", "week"]), st.integers(0, 10**5), min_size=1
    )
)
def test_a_duration_is_the_sum_of_its_parts(parts: dict[str, int]) -> None:
    said = " ".join(f"{number} {unit}{'s' * (number != 1)}" for unit, number in parts.items())
    assert durations.parse(said) == sum(number * durations.parse(f"1 {unit}") for unit, number in parts.items())


@pytest.mark.parametrize(
    ("size", "at", "start"),
    [
        ("1 hour", 0, 0),
        ("1 hour", HOUR - 1, 0),
        ("1 hour", HOUR, HOUR),
        ("1 hour", 1_357_002_000_001, 1_357_002_000_000),
        ("1 hour", -1, -HOUR),
        ("1 hour", -HOUR, -HOUR),
        ("1 week", 0, 0),
        ("7 milliseconds", 20, 14),
        ("1 millisecond", 5, 5),
    ],
)
def test_windows_stand_side_by_side_from_1970_on(size: str, at: int, start: int) -> None:
    assert tumbling(size).start_of(at) == start


@given(st.integers(1, 10 * DAY), st.integers(-(10**15), 10**15))
def test_every_time_is_in_one_window(size: int, at: int) -> None:
    start = Tumbling(size).start_of(at)
    assert start <= at < start + size
    assert start % size == 0
    assert Tumbling(size).start_of(start) == start == Tumbling(size).start_of(start + size - 1)


@pytest.mark.parametrize(
    ("size", "what"),
    [
        ("an hour", "tumbling: 'an hour' is no duration"),
        ("1 month", "tumbling: '1 month' is no duration"),
        (3600, "tumbling: 3600 is no duration"),
        ("0 hours", "tumbling: a window of '0 hours' holds nothing"),
    ],
)
def test_what_is_no_window_is_told_its_cure(size: Any, what: str) -> None:
    with pytest.raises(GraphError) as caught:
        tumbling(size)
    assert what in caught.value.what
    assert 'tumbling("1 hour")' in caught.value.cure
