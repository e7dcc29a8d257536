"""What the brokers of :mod:`anabranch.systems.kafka.broker` are set to: KRaft, loopback, a quick start."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

__all__ = ["ADDRESS", "Ports", "login", "of_broker"]

ADDRESS = "127.0.0.1"


@dataclass(frozen=True)
class Ports:
    """Where a broker listens."""

    client: int
    controller: int


def of_broker(
    index: int, ports: Sequence[Ports], racks: Sequence[str], sasl: Mapping[str, str] | None
) -> dict[str, str]:
    """The settings of the broker with this index, of as many as there are ports; all but its folder."""
    client = f"CLIENT://{ADDRESS}:{ports[index].client}"
    protocol = "SASL_PLAINTEXT" if sasl else "PLAINTEXT"
    replicas = min(3, len(ports))
    properties = {
        "process.roles": "broker,controller",
        "node.id": str(index),
        "controller.quorum.voters": ",".join(f"{node}@{ADDRESS}:{port.controller}" for node, port in enumerate(ports)),
        "listeners": f"{client},CONTROLLER://{ADDRESS}:{ports[index].controller}",
        "advertised.listeners": client,
        "listener.security.protocol.map": f"CLIENT:{protocol},CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "CLIENT",
        "controller.listener.names": "CONTROLLER",
        "auto.create.topics.enable": "false",
        "default.replication.factor": str(replicas),
        "offsets.topic.replication.factor": str(replicas),
        "offsets.topic.num.partitions": "5",
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": str(max(1, replicas - 1)),
        "transaction.state.log.num.partitions": "5",
        "group.initial.rebalance.delay.ms": "0",
        "broker.heartbeat.interval.ms": "500",
        "broker.session.timeout.ms": "3000",
        "log.cleaner.dedupe.buffer.size": str(4 << 20),
        "log.retention.ms": "-1",  # a broker counts age from timestamps of records, and those of a tour are old
    }
    if racks:
        properties["broker.rack"] = racks[index % len(racks)]
        properties["replica.selector.class"] = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
    if sasl:
        user, password = next(iter(sasl.items()))
        options = {"username": user, "password": password, **{f"user_{name}": word for name, word in sasl.items()}}
        said = " ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in options.items())
        properties["sasl.enabled.mechanisms"] = "PLAIN"
        properties["sasl.mechanism.inter.broker.protocol"] = "PLAIN"
        properties["listener.name.client.plain.sasl.jaas.config"] = (
            f"org.apache.kafka.common.security.plain.PlainLoginModule required {said};"
        )
    return properties


def login(sasl: Mapping[str, str] | None) -> dict[str, str]:
    """What confluent-kafka's clients need to log in as the first user."""
    if not sasl:
        return {}
    user, password = next(iter(sasl.items()))
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": password,
    }
