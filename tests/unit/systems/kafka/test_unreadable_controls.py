"""A control record that can't be read gives every lane the same error."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from anabranch.errors import UnsupportedFormatError
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

    def topics(self, _: object) -> Any:
        return SimpleNamespace(
            find=lambda _: TOPIC,
            starts=lambda *_: {0: 0},
            ends=lambda *_: {0: len(self.records)},
            describe=lambda _: SimpleNamespace(topic_id="1"),
            cluster=None,
        )

    def reader(self, *_: object) -> Any:
        return SimpleNamespace(messages=self._messages)

    def _messages(self, start: int, end: int) -> Iterator[list[Any]]:
        for offset in range(start, end):
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
