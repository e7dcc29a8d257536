"""A processor's timers: which are registered, and what they may not be."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from anabranch import Timers
from anabranch.api.journal import Journal
from anabranch.api.timers import EVENT_TIME, INFINITY, moment
from anabranch.errors import UsageError
from tests.unit.api.stored import Kept

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_timers() -> None:
    kept, journal = Kept(5), Journal()
    timers = Timers(kept, EVENT_TIME, journal)
    timers.begin(0)
    assert timers.now is None
    assert not timers.draining
    timers.begin(1000)
    assert timers.now == moment(1000)
    timers.register(NOON + timedelta(microseconds=1))
    timers.register(NOON.astimezone(timezone(timedelta(hours=5))))
    later = NOON + timedelta(milliseconds=1)
    assert timers.registered() == [moment(5), NOON, later]
    journal.begin()
    timers.delete(NOON)
    timers.delete(moment(5))
    assert timers.registered() == [later]
    journal.take_back()
    assert timers.registered() == [moment(5), NOON, later]
    timers.delete(moment(5))
    assert timers.flush() == {_ms(NOON): True, _ms(later): True, 5: False}
    assert kept.at == {_ms(NOON), _ms(later)}


def test_no_timer_is_registered_while_the_job_drains() -> None:
    kept = Kept()
    timers = Timers(kept, EVENT_TIME, Journal())
    timers.begin(INFINITY)
    assert timers.draining
    assert timers.now == datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
    timers.register(NOON)
    timers.flush()
    assert not kept.at


def test_who_counts_on_from_the_end_of_time_stays_there() -> None:
    kept, hour, east = Kept(), timedelta(hours=1), timezone(timedelta(hours=5))
    timers = Timers(kept, EVENT_TIME, Journal())
    timers.begin(INFINITY)
    end = timers.now
    assert end is not None
    later = [end + hour, hour + end, end + hour + hour, end - -hour, end + timedelta.max, end.astimezone(east)]
    assert later == [end] * len(later)
    for at in later:
        timers.register(at)
    timers.flush()
    assert not kept.at
    assert end - hour == datetime(9999, 12, 31, 22, 59, 59, tzinfo=UTC)
    assert (end - hour) - end == -hour
    assert end - NOON == datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC) - NOON
    assert end - hour + hour + hour == end - hour + hour
    west = timezone(timedelta(hours=-5))
    assert end.astimezone(west).hour == 18
    assert pickle.loads(pickle.dumps(end)) + hour == end


def test_no_timer_is_beyond_a_drain() -> None:
    kept = Kept()
    timers = Timers(kept, EVENT_TIME, Journal())
    timers.register(datetime.max.replace(tzinfo=UTC))
    assert timers.registered() == [moment(INFINITY - 1)]


@pytest.mark.parametrize("at", [NOON.replace(tzinfo=None), 5, "2026-01-01"])
def test_a_timer_has_a_time_with_a_zone(at: Any) -> None:
    timers = Timers(Kept(), EVENT_TIME, Journal())
    with pytest.raises(UsageError, match="not a time with a zone"):
        timers.register(at)


def test_no_timers_without_a_clock() -> None:
    timers = Timers(None, None, Journal())
    timers.begin(0)
    with pytest.raises(UsageError, match="no timers"):
        timers.register(NOON)


def _ms(at: datetime) -> int:
    return int(at.timestamp() * 1000)
