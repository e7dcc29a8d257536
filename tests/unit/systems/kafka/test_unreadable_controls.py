"""Control records that can't be read, for a while or for good, and a topic of control records that is made anew."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from anabranch.errors import AnabranchError, UnsupportedFormatError
from anabranch.systems.kafka import controls
from anabranch.systems.kafka.controls import ControlLog

TOPIC = "j-controls"


def record(number: int) -> bytes:
    return msgspec.json.encode(
        {"version": 1, "stream": "s", "id": "1", "ends": {"0": 0}, "control": {"number": number}}
    )


class Broker:
    """Has one topic with control records."""

    def __init__(self) -> None:
        self.records: list[bytes] = []
        self.id = "1"
        self.refuses = False
        """Whether the broker refuses logins. A reader that was refused once gets no records ever after."""
        self.closed = 0

    def topics(self, _: object) -> Any:
        return SimpleNamespace(
            find=lambda _: SimpleNamespace(topic_id=self.id),
            starts=lambda *_: {0: 0},
            ends=lambda *_: {0: len(self.records)},
            describe=lambda _: SimpleNamespace(topic_id="1"),
            cluster=None,
        )

    def reader(self, *_: object) -> Any:
        refused: list[bool] = []
        return SimpleNamespace(messages=lambda *given: self._messages(refused, *given), close=self._close)

    def _close(self) -> None:
        self.closed += 1

    def _messages(self, refused: list[bool], start: int, end: int) -> Iterator[list[Any]]:
        for offset in range(start, end):
            if self.refuses or refused:
                refused.append(True)
                raise AnabranchError("the login is refused", "check the password")
            value = self.records[offset]
            yield [SimpleNamespace(offset=lambda offset=offset: offset, value=lambda value=value: value)]


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    made = Broker()
    monkeypatch.setattr(controls, "Topics", made.topics)
    monkeypatch.setattr(controls, "Reader", made.reader)
    return made


@pytest.mark.parametrize("strange", [b"hello", b'{"control": {"a": ' + b"[" * 2000], ids=["text", "deeply nested"])
@pytest.mark.parametrize("before", [0, 2])
def test_what_is_no_control_record_is_told_to_every_lane(broker: Broker, before: int, strange: bytes) -> None:
    broker.records = [*map(record, range(before)), strange, record(9)]
    log = ControlLog(cast(Any, broker.topics(None)), TOPIC, pause=0)
    for _ in range(3):
        with pytest.raises(UnsupportedFormatError, match=f"{TOPIC}, offset {before} holds something"):
            log.heard("s", 0, -1, 0)


def test_records_are_read_once_and_in_order(broker: Broker) -> None:
    broker.records = [record(0), record(1)]
    log = ControlLog(cast(Any, broker.topics(None)), TOPIC, pause=0)
    assert log.heard("s", 0, -1, 0) == ([{"number": 0}, {"number": 1}], 1)
    broker.records.append(record(2))
    assert log.heard("s", 0, 1, 0) == ([{"number": 2}], 2)


def test_a_refused_login_is_over_once_the_broker_accepts_it_again(broker: Broker) -> None:
    broker.records = [record(0)]
    log = ControlLog(cast(Any, broker.topics(None)), TOPIC, pause=0)
    assert log.heard("s", 0, -1, 0) == ([{"number": 0}], 0)
    broker.records.append(record(1))
    broker.refuses = True
    for _ in range(2):
        with pytest.raises(AnabranchError, match="the login is refused"):
            log.heard("s", 0, 0, 0)
    broker.refuses = False
    assert log.heard("s", 0, 0, 0) == ([{"number": 1}], 1)
    assert broker.closed == 2, "a reader that was refused was left open"


def test_all_records_of_a_topic_that_is_made_anew_are_heard(broker: Broker) -> None:
    broker.records = [record(number) for number in range(3)]
    log = ControlLog(cast(Any, broker.topics(None)), TOPIC, pause=0)
    assert log.heard("s", 0, -1, 0)[1] == 2
    broker.records, broker.id = [record(3)], "2"
    assert log.heard("s", 0, 2, 0) == ([{"number": 3}], 0)
    broker.records.append(record(4))
    assert log.heard("s", 0, 0, 0) == ([{"number": 4}], 1)


@pytest.mark.parametrize("cursor", [2, 7], ids=["at the end", "beyond the end"])
def test_a_lane_that_has_read_a_topic_further_than_it_reaches_hears_what_is_told_from_then_on(
    broker: Broker, cursor: int
) -> None:
    """Old records can name lanes of which it isn't known any more that they are closed."""
    broker.records = [record(0), record(1)]
    log = ControlLog(cast(Any, broker.topics(None)), TOPIC, pause=0)
    assert log.heard("s", 0, cursor, 0) == ([], 1)
    broker.records.append(record(2))
    assert log.heard("s", 0, 1, 0) == ([{"number": 2}], 2)


def test_records_that_a_topic_has_lost_are_forgotten(broker: Broker) -> None:
    broker.records = [record(number) for number in range(3)]
    log = ControlLog(cast(Any, broker.topics(None)), TOPIC, pause=0)
    assert log.heard("s", 0, -1, 0)[1] == 2
    broker.records = [record(0), record(7)]
    assert log.heard("s", 0, 2, 0) == ([], 1)
    broker.records.append(record(8))
    assert log.heard("s", 0, 1, 0) == ([{"number": 8}], 2)


def test_a_record_that_another_process_has_read_first_does_not_set_a_cursor_back(broker: Broker) -> None:
    broker.records = [record(0)]
    log = ControlLog(cast(Any, broker.topics(None)), TOPIC, pause=3600)
    assert log.heard("s", 0, -1, 0)[1] == 0
    broker.records.append(record(1))
    assert log.heard("s", 0, 1, 0) == ([], 1)


def test_a_topic_that_is_away_leaves_a_lanes_place_in_it_as_it_is(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = broker.topics(None)
    away.find = lambda _: None
    monkeypatch.setattr(controls, "Topics", lambda _: away)
    assert ControlLog(cast(Any, away), TOPIC, pause=0).heard("s", 0, 4, 0) == ([], 4)
