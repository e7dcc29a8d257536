"""Controls in a topic of a Kafka cluster: who hears them, and in which order."""

from __future__ import annotations

import pytest

from anabranch.errors import UnsupportedFormatError
from anabranch.systems.kafka.cluster import Cluster
from anabranch.systems.kafka.controls import ControlLog
from anabranch.systems.kafka.system import KafkaSystem
from anabranch.systems.kafka.topics import Topics
from tests.broker.kafka_streams import batch, delete, ends, key_for, made, put, record, settings, stream, system, writer

__all__ = ["settings", "stream", "system"]  # fixtures

pytestmark = pytest.mark.integration


def test_controls_are_heard_in_order_when_what_was_before_them_is_read(system: KafkaSystem) -> None:
    name, other = made(system, 2), made(system)
    log = ControlLog(Topics(Cluster(system.settings)), f"{name}-controls")
    assert log.heard(name, 0, -1, 10**9) == ([], -1)
    log.tell(name, {"lane": "x", "number": 0})
    put(system, other, b"elsewhere")
    log.tell(other, {"lane": "y", "number": 1})
    with system.appender(name) as appender:
        appender.append(batch([record(b"v", key_for(0, 2))] * 3))
    log.tell(name, {"lane": "x", "number": 2})
    log.tell(other, {"lane": "y", "number": 3})
    log.tell(name, {"lane": "z", "number": 4})

    for heard in (log, ControlLog(Topics(Cluster(system.settings)), f"{name}-controls")):
        assert heard.heard(name, 0, -1, 0) == ([{"lane": "x", "number": 0}], 1)
        assert heard.heard(name, 0, 1, 2) == ([], 1)
        assert heard.heard(name, 0, 1, 3) == ([{"lane": "x", "number": 2}, {"lane": "z", "number": 4}], 4)
        assert heard.heard(name, 0, 4, 3) == ([], 4)
        every = [{"lane": lane, "number": number} for lane, number in (("x", 0), ("x", 2), ("z", 4))]
        assert heard.heard(name, 1, -1, 0) == (every, 4), "nothing was written to partition 1"
        assert heard.heard(other, 0, -1, 0) == ([], 0)
        assert [control["number"] for control in heard.heard(other, 0, 0, 1)[0]] == [1, 3]
        heard.close()


def test_a_control_behind_an_open_transaction_waits_for_its_end(system: KafkaSystem, stream: str) -> None:
    """Its own rows may be among those that can't be read yet."""
    log = ControlLog(Topics(Cluster(system.settings)), f"{stream}-controls")
    producer = writer(system.settings)
    producer.begin_transaction()
    producer.produce(stream, b"open", partition=0)
    producer.flush(10)
    log.tell(stream, {"lane": "x"})
    assert log.heard(stream, 0, -1, system.ends(stream)[0]) == ([], -1)
    producer.commit_transaction(10)
    assert log.heard(stream, 0, -1, ends(system, stream)[0]) == ([{"lane": "x"}], 0)
    log.close()


def test_a_partition_that_came_later_has_nothing_before_a_control(system: KafkaSystem, stream: str) -> None:
    put(system, stream, b"a")
    told_system = KafkaSystem(system.settings, controls_topic=f"{stream}-controls")
    told_system.tell(stream, {"lane": "x"})
    system.expand(stream, 2)
    assert told_system.controls(stream, 0, -1, 0) == ([], -1)
    assert told_system.controls(stream, 1, -1, 0) == ([{"lane": "x"}], 0)


def test_controls_of_a_stream_that_was_made_anew_are_not_heard(system: KafkaSystem, stream: str) -> None:
    log = ControlLog(Topics(Cluster(system.settings)), f"{stream}-controls")
    log.tell(stream, {"lane": "x", "number": 0})
    log.close()
    delete(system, stream)
    system.create(stream, 1)
    log = ControlLog(Topics(Cluster(system.settings)), f"{stream}-controls")
    log.tell(stream, {"lane": "x", "number": 1})
    assert log.heard(stream, 0, -1, 0) == ([{"lane": "x", "number": 1}], 1)
    log.close()


def test_controls_of_others_are_seen_by_a_process_that_heard_before(system: KafkaSystem, stream: str) -> None:
    first, second = (ControlLog(Topics(Cluster(system.settings)), f"{stream}-controls", pause=0) for _ in range(2))
    cursor = -1
    for number in range(5):
        first.tell(stream, {"lane": "x", "number": number})
        found, cursor = second.heard(stream, 0, cursor, 0)
        assert found == [{"lane": "x", "number": number}]
        assert cursor == number
    first.close()
    second.close()


def test_a_foreign_record_among_the_controls_is_refused(system: KafkaSystem, stream: str) -> None:
    controls = made(system)
    log = ControlLog(Topics(Cluster(system.settings)), controls)
    put(system, controls, b'{"version": 2, "stream": "s", "id": "i", "ends": {}, "control": {}}')
    with pytest.raises(UnsupportedFormatError, match=f"{controls}, offset 0 has format version 2"):
        log.heard(stream, 0, -1, 0)
    log.close()
