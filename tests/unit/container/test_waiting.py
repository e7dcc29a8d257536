"""What a lane waits for, how long, and when it has waited enough."""

from __future__ import annotations

import errno
import math
import os
import socket
from pathlib import Path

import psycopg
import pytest
from confluent_kafka import KafkaError
from hypothesis import given
from hypothesis import strategies as st

from anabranch.config import KafkaSettings
from anabranch.container import surroundings, waiting
from anabranch.container.waiting import Wait
from anabranch.systems.kafka.cluster import Cluster
from tests.support.disks import mounted

PASSING = (
    KafkaError._TRANSPORT,
    KafkaError._TIMED_OUT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.BROKER_NOT_AVAILABLE,
    KafkaError.REPLICA_NOT_AVAILABLE,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.NOT_COORDINATOR,
    KafkaError.NOT_CONTROLLER,
    KafkaError.NOT_ENOUGH_REPLICAS,
    KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.NETWORK_EXCEPTION,
    KafkaError.KAFKA_STORAGE_ERROR,
    KafkaError.CONCURRENT_TRANSACTIONS,
)

_REMOTE = "org.apache.hadoop.ipc.RemoteException(org.apache.hadoop.hdfs."


@pytest.mark.parametrize("code", PASSING)
def test_an_error_of_librdkafka_that_passes_is_waited_out(code: int) -> None:
    found = surroundings.awaited(f"cimpl.KafkaException: {KafkaError(code)!r}")
    assert found is not None, KafkaError(code)
    assert found.name == "the brokers of Kafka"


def test_partitions_without_a_leader_are_waited_for() -> None:
    found = surroundings.awaited(
        "looking up offsets of flights on the Kafka cluster b:1: for 15 s no broker answered for the partitions 0, 1"
    )
    assert found is not None
    assert found.name == "the brokers of Kafka"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (str(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/x")), "room on a disk"),
        (str(OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))), "room on a disk"),
        ("java.io.IOException: No space left on device", "room on a disk"),
        ("(sqlite3.OperationalError) database or disk is full", "room on a disk"),
        ("org.apache.kafka.common.errors.TimeoutException: Timeout of 60000ms expired", "the brokers of Kafka"),
        ("KafkaError{code=_ALL_BROKERS_DOWN,val=-187,str=...}", "the brokers of Kafka"),
        ("KafkaError{code=NOT_ENOUGH_REPLICAS,val=19,str=...}", "the brokers of Kafka"),
        ("KafkaError{code=TOPIC_AUTHORIZATION_FAILED,val=29}", "the rights of its user in Kafka"),
        ("org.apache.kafka.common.errors.TopicAuthorizationException: Not", "the rights of its user in Kafka"),
        ("KafkaError{code=_AUTHENTICATION,val=-169}", "credentials that Kafka accepts"),
        ("org.apache.kafka.common.errors.SaslAuthenticationException: x", "credentials that Kafka accepts"),
        ("KafkaError{code=INVALID_TIMESTAMP,val=32,str=...}", "timestamps that Kafka accepts"),
        ("org.apache.kafka.common.errors.InvalidTimestampException: One", "timestamps that Kafka accepts"),
        ("socket.gaierror: [Errno -3] Temporary failure in name resolution", "a host name that is known"),
        ("java.net.UnknownHostException: broker-1", "a host name that is known"),
        ("AmazonS3Exception: Please reduce your request rate (SlowDown)", "the object store"),
        ("SdkClientException: Unable to execute HTTP request: Connect to lanes:443 failed", "the object store"),
        ("ApiCallTimeoutException: Client execution did not complete before the specified", "the object store"),
        ("S3Exception: Bad Gateway (Service: S3, Status Code: 502, Request ID: x)", "the object store"),
        (f"{_REMOTE}namenode.SafeModeException): Cannot rename /d/a. Name node is in safe mode.", "HDFS"),
        (f"{_REMOTE}DSQuotaExceededException): The DiskSpace quota of /d is exceeded: quota = 1 B", "HDFS"),
        (f"{_REMOTE}NSQuotaExceededException): The NameSpace quota (directories and files)", "HDFS"),
        ("RemoteException(java.io.IOException): File /d/b could only be written to 0 of the 1 minReplication", "HDFS"),
        ("org.apache.hadoop.hdfs.BlockMissingException: Could not obtain block: BP-17 file=/d/a", "HDFS"),
        ("java.net.ConnectException: Call From vm/10.0.0.1 to head:8020 failed on connection exception: java", "HDFS"),
        ('java.io.EOFException: End of File Exception between local host is: "vm/10.0.0.1"; destination', "HDFS"),
        ("DestHost:destPort head:8020 , LocalHost:localPort vm/10.0.0.1:0. Failed on local exception: java", "HDFS"),
        ("x: other processes have held the lock /a b/s/0/.lock for 60 s", "a lock of the embedded log"),
        ("FATAL:  the database system is starting up", "the database"),
        ("FATAL:  the database system is not yet accepting connections", "the database"),
        ('connection to server at "10.0.0.1", port 5432 failed: Connection refused', "the database"),
        ('connection to server on socket "/run/.s.PGSQL.5432" failed: No such file or directory', "the database"),
        ("consuming input failed: could not receive data from server: Connection timed out", "the database"),
        ("consuming input failed: SSL SYSCALL error: EOF detected", "the database"),
        ("terminating connection due to administrator command", "the database"),
        ("FATAL:  sorry, too many clients already", "the database"),
        ('connection to server at "10.0.0.1", port 5432 failed: session is read-only', "the database"),
        ("cannot execute INSERT in a read-only transaction", "the database"),
    ],
)
def test_a_failure_of_the_surroundings_is_waited_out(text: str, name: str) -> None:
    found = surroundings.awaited(f"Traceback (most recent call last)\n{text}\n")
    assert found is not None
    assert found.name == name
    assert "without intervention" in found.cure


@pytest.mark.parametrize(
    ("code", "name"),
    [
        *((code, "the brokers of Kafka") for code in PASSING),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "the rights of its user in Kafka"),
        (KafkaError.GROUP_AUTHORIZATION_FAILED, "the rights of its user in Kafka"),
        (KafkaError.SASL_AUTHENTICATION_FAILED, "credentials that Kafka accepts"),
        (KafkaError._SSL, "credentials that Kafka accepts"),
    ],
)
def test_so_is_what_anabranch_says_of_an_error_of_kafka(code: int, name: str) -> None:
    settings = KafkaSettings(bootstrap_servers="broker-1:9092", security_protocol="SASL_SSL", sasl_username="me")
    said = Cluster(settings).explained(KafkaError(code), "reading flights/0")
    found = surroundings.awaited(f"anabranch.errors.AnabranchError: {said}")
    assert found is not None
    assert found.name == name


def test_so_is_a_postgresql_server_that_does_not_answer() -> None:
    """What psycopg itself says of a server that takes the connection and then says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgresql://me@127.0.0.1:{silent.getsockname()[1]}/db"
        with pytest.raises(psycopg.OperationalError) as caught:
            psycopg.connect(url, connect_timeout=2)
    found = surroundings.awaited(f"anabranch.errors.AnabranchError: the table can't be reached: {caught.value}")
    assert found is not None
    assert found.name == "the database"


@pytest.mark.parametrize(
    "text",
    [
        "ZeroDivisionError: division by zero",
        "ConnectionError: the service is away",  # of the job's own function: nobody knows whether it will pass
        "org.apache.kafka.common.errors.UnknownTopicOrPartitionException",
        "org.apache.kafka.common.errors.RecordTooLargeException: The message is 2000000 bytes",
        "KafkaError{code=MSG_SIZE_TOO_LARGE,val=10}",
        "KafkaError{code=INVALID_RECORD,val=87}",  # a record without a key, for a compacted topic
        "PermissionError: [Errno 13] Permission denied: '/x'",
        "[DIVIDE_BY_ZERO] Division by zero",
        "OutOfMemoryError: Java heap space",
        "the table doesn't take a row: value too long for type character varying(3)",
        'connection to server at "10.0.0.1", port 5432 failed: FATAL:  password authentication failed for user "me"',
        'connection to server at "10.0.0.1", port 5432 failed: FATAL:  database "none" does not exist',
        'connection to server on socket "/run/.s.PGSQL.5432" failed: FATAL:  no pg_hba.conf entry for host "[local]"',
        "DestHost:destPort h:8020 , LocalHost:localPort vm:0. Failed on local exception: AccessControlException",
        "terminating connection due to idle-in-transaction timeout",  # of a batch that takes too long each time
    ],
)
def test_a_fault_of_the_job_is_not(text: str) -> None:
    assert surroundings.awaited(text) is None


def test_pauses_grow_up_to_a_bound() -> None:
    pauses = [waiting.pause(Wait("room", 0.0, n), 0.0, math.inf, 0.5) for n in range(1, 8)]
    assert pauses == [1.0, 2.0, 4.0, 8.0, 15.0, 15.0, 15.0]
    assert waiting.pause(Wait("room", 0.0, 10**6), 1e9, math.inf, 1.0) == pytest.approx(18.0)


@given(st.integers(1, 10**6), st.floats(0, 1), st.floats(0, 1e9))
def test_a_lane_tries_again_within_twenty_seconds_and_never_stops_by_itself(
    attempts: int, chance: float, now: float
) -> None:
    seconds = waiting.pause(Wait("room", 0.0, attempts), now, math.inf, chance)
    assert seconds is not None
    assert 0 < seconds < 20


def test_a_wait_ends_when_it_was_long_enough() -> None:
    assert waiting.pause(Wait("room", 100.0, 9), 109.0, 10.0, 0.5) == 1.0
    assert waiting.pause(Wait("room", 100.0, 9), 110.0, 10.0, 0.5) is None
    assert waiting.pause(Wait("room", 100.0), 100.0, 0.0, 0.5) is None
    assert waiting.pause(Wait("room", 100.0), 50.0, 10.0, 0.5) == 1.0  # the clock was set back


def test_a_lane_waits_since_it_failed_first() -> None:
    first = waiting.begun_or_continued(None, "room", 5.0)
    assert first == Wait("room", 5.0, 1)
    assert waiting.begun_or_continued(first, "the brokers", 9.0) == Wait("the brokers", 5.0, 2)


def test_a_full_disk_is_named_once(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", 1) as disk:
        if disk is None:
            pytest.skip("this user may not mount a disk")
        (disk.path / "lanes").mkdir()
        places = [str(disk.path), str(disk.path / "lanes"), str(tmp_path), "/no/such/place"]
        assert surroundings.full_disks(places) == []
        disk.fill()
        assert surroundings.full_disks(places) == [f"the disk of {disk.path} has 0 bytes free"]
