"""Determines whether a failure comes from a lane's surroundings, and what a lane with such a failure waits for."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Surrounding", "awaited", "full_disks"]

_FULL_BELOW = 0.005
"""A disk counts as full if it has no free inodes, or if no more than this share of it is free. With less free space, a
large file may no longer fit."""


@dataclass(frozen=True)
class Surrounding:
    """Something outside the job that lanes depend on, such as a disk or a broker. ``name`` is what a lane waits for,
    ``cure`` is what a user can do about it, and ``pattern`` matches the texts of the failures that it causes.
    """

    name: str
    cure: str
    pattern: re.Pattern[str]


def _awaited(name: str, cure: str, *patterns: str) -> Surrounding:
    return Surrounding(name, cure, re.compile("|".join(patterns)))


DISK = _awaited(
    "room on a disk",
    "make room on that disk: the lane then continues from this batch without intervention",
    r"No space left on device",
    r"Disk quota exceeded",
    r"\bENOSPC\b|\bEDQUOT\b",
    r"database or disk is full",
    r"not enough space",
)
_BROKERS = (
    "_TRANSPORT|_ALL_BROKERS_DOWN|_TIMED_OUT|_RESOLVE|_MSG_TIMED_OUT|_DESTROY|COORDINATOR_|NOT_COORDINATOR|"
    "NOT_CONTROLLER|NOT_ENOUGH_REPLICAS|REQUEST_TIMED_OUT|LEADER_NOT_AVAILABLE|NOT_LEADER|BROKER_NOT_AVAILABLE|"
    "REPLICA_NOT_AVAILABLE|FENCED_LEADER_EPOCH|UNKNOWN_LEADER_EPOCH|OFFSET_NOT_AVAILABLE|NETWORK_EXCEPTION|"
    "KAFKA_STORAGE_ERROR|CONCURRENT_TRANSACTIONS|THROTTLING_QUOTA_EXCEEDED|REBALANCE_IN_PROGRESS"
)
"""Names of librdkafka's errors, or the beginnings of such names. These errors mean that brokers don't answer, or can't
serve a request yet."""
_KINDS = (
    DISK,
    _awaited(
        "the brokers of Kafka",
        "see that the brokers of [systems.kafka] bootstrap_servers run and answer this machine: the lane continues "
        "without intervention",
        r"org\.apache\.kafka\.common\.errors\.(?:Timeout|Disconnect|Network|NotLeader|CoordinatorNotAvailable|"
        r"CoordinatorLoadInProgress|NotCoordinator|BrokerNotAvailable|NotEnoughReplicas|KafkaStorage)",
        rf"KafkaError\{{code=(?:{_BROKERS})",
        rf"on the Kafka cluster .+ failed: .*\((?:{_BROKERS})\w*\)",
        r"no broker answered for the partitions",
        r"No resolvable bootstrap urls",
        r"the Kafka cluster .+ didn't answer",
    ),
    _awaited(
        "the rights of its user in Kafka",
        "give the user of [systems.kafka] the rights to read and write that topic, group or transactional id: the lane "
        "continues without intervention",
        r"kafka\.common\.errors\.\w*AuthorizationException",
        r"KafkaError\{code=\w*AUTHORIZATION_FAILED",
        r"on the Kafka cluster .+ isn't allowed",
    ),
    _awaited(
        "credentials that Kafka accepts",
        "see user, password and certificates in [systems.kafka], and whether they have expired: the lane continues "
        "without intervention once the brokers accept them",
        r"kafka\.common\.errors\.(?:Sasl|Ssl)?AuthenticationException",
        r"KafkaError\{code=_AUTHENTICATION",
        r"the Kafka cluster .+ refuses the login",
        r"no secure connection to the Kafka cluster",
    ),
    _awaited(
        "timestamps that Kafka accepts",
        "see that this machine's clock is right, and whether records that are read have timestamps that the topic "
        "refuses: ahead of the brokers' clock by more than its message.timestamp.after.max.ms (default: 1 hour), or "
        "behind by more than message.timestamp.before.max.ms. The lane continues without intervention once the clock "
        "is set, or the topic takes them",
        r"the topic refuses timestamps or values of these records",
        r"kafka\.common\.errors\.InvalidTimestampException",
        r"KafkaError\{code=INVALID_TIMESTAMP",
    ),
    _awaited(
        "a host name that is known",
        "see the name servers of this machine: the lane continues without intervention",
        r"UnknownHostException",
        r"Temporary failure in name resolution",
        r"Name or service not known",
        r"No address associated with hostname",
    ),
    _awaited(
        "the object store",
        "see that the store of [storage] root answers this machine: the lane continues without intervention",
        r"\bSlowDown\b|Service: S3, Status Code: 50[0234]|AWSServiceIOException|503 Service Unavailable",
        r"Unable to execute HTTP request",  # of Amazon's client, which the S3A connector uses
        r"ApiCall(?:Attempt)?TimeoutException",
    ),
    _awaited(
        "HDFS",
        "see that the name node runs and isn't in safe mode, that data nodes run, and that the folder of [storage] "
        "root is within its quotas: the lane continues without intervention",
        r"SafeModeException",
        r"\b(?:DS|NS)?QuotaExceededException|QuotaByStorageTypeExceededException",
        r"ipc\.StandbyException",
        r"could only be (?:written|replicated) to \d+ ",
        r"hdfs\.BlockMissingException",
        r"Call From .+ to .+ failed on (?:connection|socket timeout) exception",
        r"No Route to Host from .+ to .+ failed on",
        r"End of File Exception between local host is",
        r"DestHost:destPort (?!.*(?:AccessControlException|SaslException|GSSException)).* Failed on local exception",
    ),
    _awaited(
        "the storage of its folder",
        "see that this machine can write to [storage] root: it couldn't for so long that another process might have "
        "taken the lane's folder. The lane continues without intervention",
        r"ANABRANCH_LEASE_OVER",
    ),
    _awaited(
        "a lock of the embedded log",
        "perhaps a process that uses the stream is frozen: find it with `fuser` and the path of that lock, and let it "
        "go on, or end it: the lane then continues without intervention",
        r"other processes have held the lock .+ for \d+ s",
    ),
    _awaited(
        "the database",
        "see that the database runs and answers this machine: the lane continues without intervention",
        r"the database system is (?:starting up|shutting down|in recovery|not (?:yet )?accepting connections)",
        # Lanes don't wait after a refused login, or for a missing database: see also anabranch.tables.session.
        r"connection to server (?:at|on socket) (?!.* failed: .*(?:authentication|does not exist|no pg_hba)).* failed",
        r"connection timeout expired",
        r"server closed the connection unexpectedly|no connection to the server|connection socket closed",
        r"could not (?:receive data from|send data to) server",
        r"SSL SYSCALL error|SSL connection has been closed unexpectedly",
        r"terminating connection (?:due to (?:administrator command|unexpected postmaster exit)|because of crash)",
        r"cannot execute .+ in a read-only transaction",
        r"too many clients already|remaining connection slots are reserved",
    ),
)


def awaited(text: str) -> Surrounding | None:
    """The part of the surroundings that has caused a failure, according to the failure's complete ``text``; None if the
    text names no such part."""
    return next((kind for kind in _KINDS if kind.pattern.search(text)), None)


def full_disks(places: Iterable[str]) -> list[str]:
    """A message for each full disk that contains any of the folders in ``places``. Folders that can't be examined are
    left out."""
    notes: dict[tuple[int, int], str] = {}
    for place in places:
        try:
            state = os.statvfs(place)
        except OSError:
            continue
        if state.f_bavail <= state.f_blocks * _FULL_BELOW or (state.f_files and not state.f_favail):
            free = state.f_bavail * state.f_frsize
            notes.setdefault((state.f_fsid, state.f_blocks), f"the disk of {place} has {free:,} bytes free")
    return list(notes.values())
