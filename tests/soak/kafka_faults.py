"""Three brokers that don't fail, but refuse, slow down, forget or lose something: what a job on them does.

The job logs in as a user of its own, whose rights, password and quota change while it runs. The test is another user.
"""

from __future__ import annotations

import json
import math
import random
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from confluent_kafka.cimpl import NewTopic

from anabranch.config import KafkaSettings
from anabranch.errors import AnabranchError
from anabranch.systems.kafka import clients, jars
from anabranch.testing import broker
from tests.acceptance.harness import INPUT, JOB, LATE, PARTITIONS, Flight, Process, Workspace, flights, records
from tests.soak import recovery
from tests.soak.with_functions import in_turn
from tests.support import kafka_peers

__all__ = ["faulty", "workspace_of"]

BROKERS = 3
COUNT, DAYS, SMALL = 3000, 4, 100
BEHIND_AT_MOST = 2.0
PATIENCE = 900.0
FORGOTTEN_AFTER = 10.0
THROTTLED_SECONDS, AWAY_SECONDS = 60.0, 600.0
TESTER, USER = "tester", "delays-user"
PASSWORDS = {TESTER: "tester's", USER: "first"}
PROPERTIES = {
    **kafka_peers.PROPERTIES,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:{TESTER};User:ANONYMOUS",  # controllers talk to each other without a login
    "allow.everyone.if.no.acl.found": "true",
}
OF_CASE: dict[str, Mapping[str, str]] = {
    "forgotten": {
        "transactional.id.expiration.ms": f"{FORGOTTEN_AFTER * 1000:.0f}",
        "transaction.remove.expired.transaction.cleanup.interval.ms": "1000",
        "producer.id.expiration.ms": f"{FORGOTTEN_AFTER * 1000:.0f}",
        "producer.id.expiration.check.interval.ms": "1000",
    },
    "password": {"connections.max.reauth.ms": "5000"},
}


def workspace_of(seed: int, folder: Path, stack: ExitStack) -> Workspace:
    found = jars.broker_folder()
    assert found is not None, "a broker's jars are needed: anabranch jars fetch broker"
    properties = {**PROPERTIES, **OF_CASE.get(_name(seed), {})}
    cluster = stack.enter_context(
        broker.start(folder / "cluster", found, BROKERS, properties=properties, sasl=PASSWORDS)
    )
    secret = folder / "password"
    secret.write_text(PASSWORDS[USER])
    own = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": broker.SCRAM,
        "sasl_username": USER,
        "sasl_password": f"${{file:{secret}}}",
    }
    tester = KafkaSettings(
        bootstrap_servers=cluster.bootstrap_servers,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism=broker.SCRAM,
        sasl_username=TESTER,
        sasl_password=PASSWORDS[TESTER],
    )
    settings: dict[str, Any] = {f"systems__kafka__{name}": value for name, value in own.items()}
    return Workspace(folder, cluster, patience=PATIENCE, kafka=tester, job__max_rows_per_batch=SMALL, **settings)


def faulty(seed: int, workspace: Workspace) -> str:
    """By seed, one of :data:`CASES` befalls a running job. It goes on by itself, or one text says what to do; at the
    end, all is there once.
    """
    name, functions = _name(seed), in_turn(seed, len(CASES), workspace)
    return f"{name}{functions}: {CASES[name](_Story(seed, workspace))}"


def _name(seed: int) -> str:
    return list(CASES)[seed % len(CASES)]


@dataclass
class _Story:
    """A job, what it has been given to read so far, and within how many seconds it must continue."""

    seed: int
    workspace: Workspace
    several: list[Flight] = field(init=False)
    put: int = 0
    within: float = 0.0

    def __post_init__(self) -> None:
        self.several = flights(self.seed, COUNT, days=DAYS, keyless=0)
        self.dice = random.Random(self.seed)
        self.client = clients.librdkafka(self.workspace.kafka)
        self._admins: list[AdminClient] = []

    @property
    def admin(self) -> AdminClient:
        """A new client, as old ones may know brokers that are gone. It is kept, because its answers need it."""
        self._admins.append(AdminClient({name: value for name, value in self.client.items() if name != "logger"}))
        return self._admins[-1]

    @property
    def cluster(self) -> broker.Cluster:
        assert self.workspace.cluster is not None
        return self.workspace.cluster

    def feed(self, share: float) -> None:
        """Put the next part of all flights."""
        end = min(COUNT, self.put + int(COUNT * share))
        self.workspace.put(self.several[self.put : end])
        self.put = end

    def start(self) -> Process:
        begun = time.monotonic()
        process = self.workspace.start("run", f"{JOB}.py")
        process.until("a batch", lambda: self.workspace.committed("1-") >= 0)
        self.within = max(self.within, recovery.within(time.monotonic() - begun))
        self.until_read(process)
        return process

    def until_read(self, process: Process) -> float:
        """The seconds until both stages that read the input are at its end, whose offsets needn't count records."""
        begun = time.monotonic()
        end = sum(self.workspace.system.ends(INPUT).values())
        process.until("all to be read", lambda: min(self.workspace.read("0-"), self.workspace.read("1-")) >= end)
        return time.monotonic() - begun

    def to_the_end(self, process: Process) -> float:
        """Put what is left; the job reads it, stops, and all is there once. The seconds that reading took."""
        self.feed(1.0)
        took = self.until_read(process)
        self.stop(process)
        self.check()
        return took

    def until_goes_on(self, process: Process) -> float:
        """The seconds until another batch is committed, which must be few."""
        begun, before = time.monotonic(), self.workspace.read("0-")
        process.until("the job to go on", lambda: self.workspace.read("0-") > min(before, self.put - 1))
        took = time.monotonic() - begun
        assert took <= self.within, f"it went on after {took:.0f} s:\n{process.stderr}"
        return took

    def until_said(self, process: Process, *words: str) -> str:
        """The line of ``status`` with all these words, once it is there."""
        found: list[str] = []

        def said() -> bool:
            status = self.workspace.call("status", JOB)
            lines = (status.stdout + status.stderr).splitlines()
            found[:] = [line for line in lines if all(word in line for word in words)]
            return bool(found)

        process.until(" ".join(words), said)
        return found[0]

    def stop(self, process: Process) -> None:
        process.popen.send_signal(signal.SIGTERM)
        assert process.wait() == 0, process.stderr
        assert "Traceback" not in process.stderr, process.stderr

    def refused(self) -> str:
        """The one text with which the job ends."""
        process = self.workspace.start("run", f"{JOB}.py", "--available-now")
        assert process.wait() != 0
        assert process.stderr.count("error: ") == 1, process.stderr
        assert "Traceback" not in process.stderr, process.stderr
        return process.stderr[process.stderr.index("error: ") :].strip().replace("\n", " ")

    def check(self, gone: Sequence[int] = ()) -> None:
        """Let ended windows come out, and compare. ``gone``: flights that nobody can read."""
        self.workspace.finish()
        self.workspace.check_outputs([each for number, each in enumerate(self.several) if number not in set(gone)])

    def set_topic(self, topic: str, **values: str | None) -> None:
        changes = [
            ConfigEntry(
                name.replace("_", "."),
                value or "",
                incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
            )
            for name, value in values.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=changes)
        self.admin.incremental_alter_configs([resource])[resource].result(60)


def _rights(story: _Story) -> str:
    """A right is taken away and given back."""
    kind, name, pattern = story.dice.choice(
        [
            (ResourceType.TOPIC, INPUT, ResourcePatternType.LITERAL),
            (ResourceType.TOPIC, LATE, ResourcePatternType.LITERAL),
            (ResourceType.TRANSACTIONAL_ID, "anabranch", ResourcePatternType.PREFIXED),
        ]
    )
    place = kind, name, pattern, f"User:{USER}", "*"
    story.feed(0.3)
    process = story.start()
    denied = AclBinding(*place, AclOperation.ALL, AclPermissionType.DENY)
    story.admin.create_acls([denied])[denied].result(60)
    story.feed(0.3)
    line = story.until_said(process, "the rights of its user in Kafka")
    any_of = AclBindingFilter(*place, AclOperation.ANY, AclPermissionType.ANY)
    story.admin.delete_acls([any_of])[any_of].result(60)
    took = story.until_goes_on(process)
    story.to_the_end(process)
    return f"no rights for {kind.name} {name}: {line.strip()[:200]}; it went on after {took:.0f} s"


def _password(story: _Story) -> str:
    """The password changes at the brokers, and later in the file that the settings name."""
    story.feed(0.3)
    process = story.start()
    new = UserScramCredentialUpsertion(USER, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), b"second")
    story.admin.alter_user_scram_credentials([new])[USER].result(60)
    time.sleep(10)  # connections must log in again after half of that
    story.feed(0.3)
    line = story.until_said(process, "credentials that Kafka accepts")
    (story.workspace.folder / "password").write_text("second")
    took = story.until_goes_on(process)
    story.to_the_end(process)
    return f"{line.strip()[:200]}; it went on {took:.0f} s after the file had the new password"


def _quota(story: _Story) -> str:
    """The brokers throttle the job for a minute."""
    story.feed(0.2)
    process = story.start()
    story.feed(0.4)
    _set_quota(story, add="producer_byte_rate=2000,consumer_byte_rate=20000")
    time.sleep(THROTTLED_SECONDS)
    assert not process.ended, process.stderr
    read = story.workspace.read("0-")
    _set_quota(story, delete="producer_byte_rate,consumer_byte_rate")
    took = story.to_the_end(process)
    assert took <= story.within * 2, f"{COUNT - read} records took {took:.0f} s without a quota"
    return f"{read} of {int(COUNT * 0.6)} records read with a quota; the others within {took:.0f} s without"


def _set_quota(story: _Story, **changes: str) -> None:
    folder = jars.broker_folder()
    assert folder is not None
    login = story.workspace.folder / "tester.properties"
    login.write_text("".join(f"{name}={value}\n" for name, value in clients.java(story.workspace.kafka).items()))
    words = [word for name, value in changes.items() for word in (f"--{name}-config", value)]
    command = ["java", "-cp", f"{folder}/*", "kafka.admin.ConfigCommand", "--command-config", str(login), "--alter"]
    where = ["--bootstrap-server", story.cluster.bootstrap_servers, "--entity-type", "users", "--entity-name", USER]
    done = subprocess.run([*command, *where, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def _size(story: _Story) -> str:
    """The output takes no messages of this size for a while.

    Below 78 bytes, brokers couldn't even write the end of a transaction.
    """
    story.feed(0.3)
    process = story.start()
    story.set_topic(LATE, max_message_bytes="100")
    story.feed(0.3)
    error = story.until_said(process, "failed", "is larger than the topic takes")
    assert "max.message.bytes" in process.stderr, process.stderr
    process.popen.send_signal(signal.SIGTERM)
    process.wait()
    story.set_topic(LATE, max_message_bytes=None)
    story.feed(1.0)
    story.check()
    return error[:300]


def _forgotten(story: _Story) -> str:
    """The brokers forget the job's transactional ids, once while it idles and once while it is stopped."""
    story.feed(0.3)
    process = story.start()
    time.sleep(3 * FORGOTTEN_AFTER)
    story.feed(0.3)
    idle = story.until_read(process)
    story.stop(process)
    time.sleep(3 * FORGOTTEN_AFTER)
    story.feed(1.0)
    story.stop(story.start())
    story.check()
    return f"records that came after {3 * FORGOTTEN_AFTER:.0f} s were read within {idle:.1f} s"


def _retention(story: _Story) -> str:
    """Records are deleted that a stopped job hasn't read."""
    story.feed(0.3)
    process = story.start()
    story.stop(process)
    before = story.workspace.system.ends(INPUT)
    story.feed(0.3)
    after = story.workspace.system.ends(INPUT)
    partition = max(after, key=lambda p: after[p] - before[p])
    cut = before[partition] + (after[partition] - before[partition]) // 2
    lost = {value["origin"] for p, offset, value in _values(story) if p == partition and offset < cut}
    known = {value["origin"] for p, offset, value in _values(story) if p == partition and offset < before[p]}
    story.admin.delete_records([TopicPartition(INPUT, partition, cut)])[TopicPartition(INPUT, partition)].result(60)
    error = story.refused()
    assert f"{INPUT}/{partition}" in error, error
    assert "on_data_loss" in error, error
    story.feed(1.0)
    story.workspace.settings[f"streams__{INPUT}__on_data_loss"] = "earliest"
    gone = [number for number, each in enumerate(story.several) if each["origin"] in lost - known]
    story.check(gone)
    return f"{len(gone)} records gone: {error[:300]}"


def _values(story: _Story) -> list[tuple[int, int, Any]]:
    return [(p, offset, json.loads(value)) for p, offset, value, _ in story.workspace.raw(INPUT)]


def _open_transaction(story: _Story) -> str:
    """Another producer begins a transaction in the input, and leaves it open."""
    story.feed(0.3)
    process = story.start()
    other = Producer({**story.client, "transactional.id": "etl-7", "transaction.timeout.ms": 170_000})
    other.init_transactions(60)
    other.begin_transaction()
    extra = flights(story.seed + 1000, 20, days=1, keyless=0)
    batch = records([{**each, "origin": f"X{number}"} for number, each in enumerate(extra)])
    for key, value in zip(batch["key"].to_pylist(), batch["value"].to_pylist(), strict=True):
        other.produce(INPUT, value, key, partition=0)
    other.flush()
    story.feed(0.3)
    line = story.until_said(process, f"{INPUT}/0", "etl-7")
    other.abort_transaction(60)
    took = story.until_goes_on(process)
    story.to_the_end(process)
    return f"{line.strip()[:400]}; it went on after {took:.1f} s"


def _positions(story: _Story) -> str:
    """Other tools see how far the job is."""
    story.feed(0.2)
    process = story.start()
    worst = 0.0
    for _ in range(8):
        time.sleep(story.dice.uniform(0.2, 3))
        story.feed(0.1)
        story.until_read(process)
        begun = time.monotonic()
        process.until("the group to follow", lambda: _told(story) >= story.put)
        worst = max(worst, time.monotonic() - begun)
    assert worst <= BEHIND_AT_MOST, f"the group was {worst:.1f} s behind a commit"
    story.stop(process)
    story.check()
    return f"the group was at most {worst:.1f} s behind a commit"


def _told(story: _Story) -> int:
    """How far both stages that read the input are, as another tool sees it."""
    sums = []
    for stage in ("0", "1"):
        group = f"{JOB}.{stage}"
        asked = ConsumerGroupTopicPartitions(group)
        found = story.admin.list_consumer_group_offsets([asked], require_stable=False)[group].result(60)
        sums.append(sum(each.offset for each in found.topic_partitions if each.offset > 0))
    return min(sums)


def _away(story: _Story) -> str:
    """Two of three brokers are away for ten minutes: nothing can be written, and no leader chosen."""
    story.feed(0.3)
    process = story.start()
    both = story.dice.sample(range(BROKERS), 2)
    for each in both:
        story.cluster.kill(each)
    time.sleep(AWAY_SECONDS)
    assert not process.ended, process.stderr
    line = story.until_said(process, "the brokers of Kafka")
    for each in both:
        story.cluster.start_again(each)
    story.feed(0.3)
    took = story.until_goes_on(process)
    story.to_the_end(process)
    return f"{line.strip()[:200]}; it went on after {took:.0f} s"


def _unclean(story: _Story) -> str:
    """A leader that hadn't everything is elected: the input's end moves back behind the job's position."""
    admin = story.admin
    new = NewTopic(INPUT, PARTITIONS, replica_assignment=[[0, 1], *([[2, 1]] * (PARTITIONS - 1))], config=_UNCLEAN)
    admin.create_topics([new])[INPUT].result(60)
    story.feed(0.3)
    process = story.start()
    story.cluster.kill(1)
    begun = time.monotonic()
    _until(lambda: math.isfinite(_end(story)))
    answered = time.monotonic() - begun
    story.feed(0.3)
    story.until_read(process)
    story.stop(process)
    before = story.workspace.system.ends(INPUT)[0]
    story.cluster.kill(0)
    story.cluster.start_again(1)
    _until(lambda: _end(story) < before)
    lost = before - _end(story)
    story.cluster.start_again(0)
    error = story.refused()
    assert f"{INPUT}/0" in error, error
    told = _accept(story)
    story.feed(1.0)
    story.stop(story.start())
    story.check()
    return f"{lost} records lost: {error[:400]}; {told}; the brokers answered {answered:.1f} s after one was killed"


def _end(story: _Story) -> float:
    """The end of the input's first partition; infinity while it has no leader."""
    try:
        return story.workspace.system.ends(INPUT)[0]
    except AnabranchError:
        return math.inf


def _made_again(story: _Story) -> str:
    """The input is deleted and made again while the job is stopped."""
    story.feed(0.5)
    process = story.start()
    story.stop(process)
    kafka_peers.delete(story.cluster.bootstrap_servers, INPUT, story.admin)
    story.feed(0.3)
    error = story.refused()
    assert "anabranch accept" in error, error
    told = _accept(story)
    story.feed(1.0)
    story.stop(story.start())
    story.check()
    return f"{error[:300]}; {told}"


def _accept(story: _Story) -> str:
    """Let the job continue with its input as it is now."""
    asked = story.workspace.call("accept", JOB, INPUT, code=2)
    assert "nothing was changed" in asked.stderr, asked.stderr
    return story.workspace.call("accept", JOB, INPUT, "--yes").stdout.strip().replace("\n", ";")


_UNCLEAN = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)


CASES: dict[str, Callable[[_Story], str]] = {
    "rights": _rights,
    "password": _password,
    "quota": _quota,
    "size": _size,
    "forgotten": _forgotten,
    "retention": _retention,
    "open transaction": _open_transaction,
    "positions": _positions,
    "made again": _made_again,
    "unclean": _unclean,
    "away": _away,
}
