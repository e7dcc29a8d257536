"""A job on three brokers, in three containers and racks: the bytes read across racks, as clients count them."""

from __future__ import annotations

import json
import socket
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pyspark
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from py4j.java_gateway import JavaGateway

from anabranch.model.traffic import Traffic
from anabranch.protocol.commands import AssignRequest
from anabranch.systems.kafka import jars
from anabranch.testing import broker
from tests.acceptance.harness import Process, Workspace
from tests.jobs import JOBS
from tests.soak.served import SETTINGS, ended_well, seat_of
from tests.support import jvm, kafka_peers

JOB, INPUT = "few", "many"
FILE = JOBS / "few.py"
RACKS = ("r0", "r1", "r2")
REPLICAS: dict[int, Sequence[Sequence[int]]] = {
    1: [[1], [1], [0], [0], [0], [0]],
    2: [[1, 2], [0, 1], [0, 1], [0, 1], [0, 1], [0, 1]],
    3: [[0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 2, 1], [1, 0, 2], [2, 1, 0]],
}
"""The brokers of each of six partitions, the leader first: such that not all can be read in the rack of a replica with
one replica or two, and that going by the partitions' numbers is worse than need be."""
LEAST = {1: 2, 2: 1, 3: 0}
"""How many partitions must be read across racks, with two in each container."""
EACH, SIZE = 10_000, 1000
"""So many records in each partition, of so many bytes."""
WITHIN = 0.05
PATIENCE = 400.0


def workspace_of(folder: Path, stack: ExitStack) -> Workspace:
    found = jars.broker_folder()
    assert found is not None, "a broker's jars are needed: anabranch jars fetch broker"
    properties = {**kafka_peers.PROPERTIES, "offsets.topic.replication.factor": "1"}
    cluster = stack.enter_context(broker.start(folder / "cluster", found, 3, RACKS, properties))
    return Workspace(folder, cluster, FILE, patience=PATIENCE, **SETTINGS, job__max_rows_per_batch=10 * EACH)


def racked(seed: int, workspace: Workspace) -> str:
    """With one replica, two or three, by seed: containers read across racks what the plan says, which is less with
    racks than without, and with three replicas nothing. Every fourth: but not where consumers don't know their rack.

    Where racks aren't known at the start, tasks move when the containers are there: by ``assign apply``.
    """
    if seed % 4 == 3:
        without = _run(workspace, REPLICAS[3], "min_traffic", ())
        assert without.across > EACH * SIZE, without
        return f"3 replicas, without client.rack: {without.across:,} bytes across racks of {without.total:,}"
    factor = 1 + seed % 4
    told = []
    across = {}
    for strategy in ("none", "min_traffic"):
        found = _run(workspace, REPLICAS[factor], strategy, RACKS)
        foreseen, read = found.foreseen.across * EACH * SIZE, found.across
        assert found.foreseen.total == len(REPLICAS[factor])
        assert abs(read - foreseen) <= WITHIN * max(foreseen, EACH * SIZE), (strategy, read, foreseen)
        assert abs(found.total - 6 * EACH * SIZE) <= WITHIN * 6 * EACH * SIZE, found.read
        across[strategy] = found.foreseen.across, read
        told.append(
            f"{strategy}: {read:,} bytes across racks of {found.total:,}, {foreseen:,} foreseen, {found.moved} moved"
        )
    assert across["min_traffic"][0] == LEAST[factor]
    if factor < 3:
        assert across["min_traffic"][0] < across["none"][0], across
        assert across["min_traffic"][1] < across["none"][1], across
    else:
        assert across["min_traffic"][1] < WITHIN * EACH * SIZE
    return f"{factor} replica(s); " + "; ".join(told)


@dataclass(frozen=True)
class Found:
    """``read``: bytes, by the rack that reads and the one that is read from; as the plan has it, partitions."""

    read: Mapping[tuple[str, str], int]
    foreseen: Traffic
    moved: int = 0

    @property
    def total(self) -> int:
        return sum(self.read.values())

    @property
    def across(self) -> int:
        return sum(count for (reader, source), count in self.read.items() if reader != source)


def _run(workspace: Workspace, replicas: Sequence[Sequence[int]], strategy: str, racks: Sequence[str]) -> Found:
    """Run the job under a store and on an input of its own until it has read all; gives what was read. ``racks``: none:
    containers aren't told theirs, and tasks are placed at the start as if they were."""
    name = f"{strategy}-{len(racks)}"
    folder = workspace.folder / name
    folder.mkdir()
    workspace.settings["coordinator__token_file"] = str(folder / "coordinator.token")
    servers = workspace.kafka.bootstrap_servers
    _create(servers, INPUT, replicas)
    place = {
        "coordinator__store": f"sqlite:///{folder}/coordinator.db",
        "storage__root": str(folder / "lanes"),
        "systems__kafka__prefix": name,
    }
    port, *tapped = _free(4)
    url = f"http://127.0.0.1:{port}"
    coordinator = workspace.start("coordinator", "--port", str(port), **place)
    coordinator.until("its URL", lambda: url in coordinator.stderr)
    wished = {"assignment__strategy": strategy, "job__containers": 3}
    if strategy == "none" or not racks:
        wished["assignment__racks"] = json.dumps(RACKS)
    workspace.call("start", "few.py", "--detach", "--coordinator", url, **place, **wished)
    containers = []
    for number, tap in enumerate(tapped):
        words = ["--rack", racks[number]] if racks else []
        containers.append(_container(workspace, url, words, tap))
    moves = 0
    with workspace.client(url) as client:
        coordinator.until("it runs", lambda: client.status(JOB).state == "running")
        if strategy != "none" and racks:
            moves = client.assign(JOB, AssignRequest(dry=True)).moved
            applied = workspace.call("assign", "apply", JOB, coordinator__url=url)
            said = f"{moves} task(s) get another container; " if moves else "all tasks are where they should be"
            assert said in applied.stderr, applied.stderr
        _fill(servers, len(replicas))

        def is_read() -> bool:
            status = client.status(JOB)
            lanes = [each.report for each in status.lanes]
            read = sum(sum(report.progress.positions.values()) for report in lanes if report is not None)
            return status.state == "running" and read == 6 * EACH and all(each.lag == 0 for each in status.lanes)

        coordinator.until("all to be read", is_read)
        seats = {each.container: each.seat for each in client.status(JOB).containers}
        held = [RACKS[int(seats[seat_of(each) or ""])] for each in containers]
        read = _tapped(dict(zip(racks or held, tapped, strict=True)))
        assignment = client.assignment(JOB)
        foreseen = assignment.before
        if racks:
            assert client.status(JOB).warnings == ()
            assert foreseen is not None, assignment
    workspace.call("stop", JOB, coordinator__url=url)
    for each in containers:
        ended_well(each)
    coordinator.popen.terminate()
    assert coordinator.wait() == 0, coordinator.stderr
    for topic in workspace.system.streams():
        kafka_peers.delete(servers, topic)
    return Found(read, foreseen or Traffic(read={}), moves)


def _container(workspace: Workspace, url: str, words: Sequence[str], tap: int) -> Process:
    """A container whose JVM tells its figures at a port."""
    remote = "com.sun.management.jmxremote"
    told = {
        f"{remote}.port": tap,
        f"{remote}.rmi.port": tap,
        f"{remote}.authenticate": "false",
        f"{remote}.ssl": "false",
    }
    told |= {f"{remote}.host": "127.0.0.1", "java.rmi.server.hostname": "127.0.0.1"}
    options = " ".join([jvm.QUICK["SPARK_SUBMIT_OPTS"], *(f"-D{name}={value}" for name, value in told.items())])
    return workspace.start("container", JOB, "--coordinator", url, *words, env={"SPARK_SUBMIT_OPTS": options})


def _tapped(ports: Mapping[str, int]) -> dict[tuple[str, str], int]:
    """The bytes that Kafka's consumers in each rack's container have got from the brokers of each rack, by their own
    metrics."""
    read: Counter[tuple[str, str]] = Counter()
    gateway = _java()
    try:
        management = gateway.jvm.javax.management
        for rack, port in ports.items():
            url = management.remote.JMXServiceURL(f"service:jmx:rmi:///jndi/rmi://127.0.0.1:{port}/jmxrmi")
            connector = management.remote.JMXConnectorFactory.connect(url)
            server = connector.getMBeanServerConnection()
            kind = management.ObjectName("kafka.consumer:type=consumer-node-metrics,*")
            for name in server.queryNames(kind, None):
                node = name.getKeyProperty("node-id")
                index = node.removeprefix("node-")
                if index in {"0", "1", "2"}:
                    read[rack, RACKS[int(index)]] += int(server.getAttribute(name, "incoming-byte-total"))
            connector.close()
    finally:
        gateway.shutdown()
    return dict(read)


def _java() -> JavaGateway:
    """A JVM that ends with us, to ask others."""
    jar = next(Path(pyspark.__file__).parent.glob("jars/py4j*.jar"))
    return JavaGateway.launch_gateway(jarpath=str(jar), die_on_exit=True)


def _free(count: int) -> list[int]:
    with ExitStack() as held:
        listeners = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [listener.getsockname()[1] for listener in listeners]


def _create(servers: str, topic: str, replicas: Sequence[Sequence[int]]) -> None:
    wanted = NewTopic(topic, num_partitions=len(replicas), replica_assignment=[list(each) for each in replicas])
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([wanted])[topic].result(PATIENCE)


def _fill(servers: str, partitions: int) -> None:
    """Put as many bytes in each partition of the input, in batches of the size that Kafka's own producer makes: a fetch
    of 1 MB ends within a batch, which is then fetched again."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 50, "batch.size": 16_384, "acks": "all"})
    value = json.dumps({"n": 1, "rest": "x"}).encode()
    value = value.replace(b"x", b"x" * (SIZE - len(value) + 1))
    for number in range(EACH):
        for partition in range(partitions):
            producer.produce(INPUT, value, str(number).encode(), partition)
        producer.poll(0)
    assert producer.flush(PATIENCE) == 0
