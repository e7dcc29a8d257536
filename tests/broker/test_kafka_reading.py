"""What readers of a Kafka cluster see: ranges, records, timestamps and transactions."""

from __future__ import annotations

import pytest

from anabranch.config import KafkaSettings
from anabranch.errors import LogError
from anabranch.systems import fetching
from anabranch.systems.kafka.system import KafkaSystem
from tests.broker.kafka_streams import batch, ends, put, read, record, settings, stream, system, transaction, writer
from tests.broker.reading import values

__all__ = ["settings", "stream", "system"]  # fixtures

pytestmark = pytest.mark.integration


def test_an_end_is_the_last_stable_offset(system: KafkaSystem, stream: str) -> None:
    producer = writer(system.settings)
    transaction(producer, stream, b"a", b"b")
    assert ends(system, stream) == {0: 3}
    transaction(producer, stream, b"c", commit=False)
    assert ends(system, stream) == {0: 5}

    producer.begin_transaction()
    producer.produce(stream, b"open", partition=0)
    producer.flush(10)
    put(system, stream, b"behind")
    assert system.ends(stream) == {0: 5}
    assert system.high_watermarks(stream) == {0: 7}
    assert read(system, stream, (0, 5)) == [(0, b"a"), (1, b"b")]
    producer.commit_transaction(10)
    assert ends(system, stream) == {0: 8}
    assert read(system, stream, (0, 8)) == [(0, b"a"), (1, b"b"), (5, b"open"), (6, b"behind")]


@pytest.fixture
def gappy(system: KafkaSystem, stream: str) -> str:
    """a b | x y | c d | z |, in transactions, of which x y and z were aborted: markers at 2, 5, 8 and 10."""
    producer = writer(system.settings)
    transaction(producer, stream, b"a", b"b")
    transaction(producer, stream, b"x", b"y", commit=False)
    transaction(producer, stream, b"c", b"d")
    transaction(producer, stream, b"z", commit=False)
    assert ends(system, stream) == {0: 11}
    return stream


@pytest.mark.parametrize(
    ("ranges", "found"),
    [
        ([(0, 11)], {0: b"a", 1: b"b", 6: b"c", 7: b"d"}),
        ([(0, 3)], {0: b"a", 1: b"b"}),
        ([(2, 6)], {}),
        ([(8, 11)], {}),
        ([(10, 11)], {}),
        ([(1, 7)], {1: b"b", 6: b"c"}),
        ([(0, 1), (1, 2), (7, 8)], {0: b"a", 1: b"b", 7: b"d"}),
        ([(1, 4), (9, 11)], {1: b"b"}),
        ([(3, 3)], {}),
        ([], {}),
    ],
)
def test_ranges_hold_what_was_committed(
    system: KafkaSystem, gappy: str, ranges: list[tuple[int, int]], found: dict[int, bytes]
) -> None:
    assert read(system, gappy, *ranges) == list(found.items())


def test_a_range_before_an_open_transaction_ends(system: KafkaSystem, gappy: str) -> None:
    producer = writer(system.settings)
    producer.begin_transaction()
    producer.produce(gappy, b"open", partition=0)
    producer.flush(10)
    assert read(system, gappy, (6, 11)) == [(6, b"c"), (7, b"d")]
    producer.abort_transaction(10)


def test_a_range_that_was_not_written_is_an_error_within_bounded_time(settings: KafkaSettings, gappy: str) -> None:
    hasty = KafkaSystem(settings, patience=1.0)
    with pytest.raises(LogError, match=rf"{gappy}/0 ends at offset 11, before 12"):
        read(hasty, gappy, (6, 12))
    with pytest.raises(LogError, match=rf"{gappy}/0 ends at offset 11, before 20"):
        read(hasty, gappy, (20, 21))


def test_ranges_far_apart_are_sought(system: KafkaSystem, stream: str) -> None:
    put(system, stream, *(b"%d" % number for number in range(5000)))
    ranges = [(3, 5), (10, 11), (2500, 2502), (4999, 5000)]
    wanted = [offset for start, end in ranges for offset in range(start, end)]
    assert read(system, stream, *ranges) == [(offset, b"%d" % offset) for offset in wanted]
    assert read(system, stream, (0, 5000)) == [(offset, b"%d" % offset) for offset in range(5000)]


def test_records_that_are_gone_are_counted(system: KafkaSystem, stream: str) -> None:
    put(system, stream, *(b"%d" % number for number in range(10)))
    system.purge(stream, {0: 4})
    assert system.starts(stream) == {0: 4}
    with pytest.raises(
        LogError, match=rf"{stream}/0 doesn't hold the 3 offsets from 1 on any more: the oldest kept is 4"
    ):
        read(system, stream, (1, 6))
    assert read(system, stream, (4, 6)) == [(4, b"4"), (5, b"5")]


def test_a_reader_may_stop_early(system: KafkaSystem, stream: str) -> None:
    put(system, stream, b"a", b"b")
    found = system.read(stream, 0, [(0, 1), (1, 2)])
    next(found)
    found.close()  # type: ignore[attr-defined]
    assert list(found) == []


def test_single_records_are_fetched(system: KafkaSystem, stream: str) -> None:
    put(system, stream, *(b"%d" % number for number in range(4000)))
    for offsets in ([], [0], [7, 9, 3999], [0, 1, 2, 1500, 1501]):
        assert values(fetching.fetch(system, stream, 0, offsets)) == [(offset, b"%d" % offset) for offset in offsets]


def test_a_record_that_cannot_be_fetched_is_named(system: KafkaSystem, gappy: str) -> None:
    assert values(fetching.fetch(system, gappy, 0, [1, 6])) == [(1, b"b"), (6, b"c")]
    with pytest.raises(LogError, match=rf"2 of 3 records of {gappy}/0 aren't there, the first at offset 3"):
        values(fetching.fetch(system, gappy, 0, [1, 3, 8]))


def test_records_come_back_as_they_were(system: KafkaSystem, stream: str) -> None:
    sent = batch(
        [
            record(b"plain", b"key"),
            record(None, b"deleted"),
            record(b"", b""),
            record(
                b"\x00\xff",
                None,
                [{"key": "a", "value": b"\x00"}, {"key": "a", "value": None}, {"key": "ü", "value": b""}],
            ),
            record(None, None, at_ms=1),
        ]
    )
    with system.appender(stream) as appender:
        assert appender.append(sent) == 5
        assert appender.append(sent.slice(0, 0)) == 0
        assert appender.append(sent.slice(3, 1)) == 1
    (found,) = [records for _, records in system.read(stream, 0, [(0, 6)])]
    assert found.to_pylist() == [*sent.to_pylist(), sent.to_pylist()[3]]
