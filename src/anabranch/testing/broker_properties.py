"""Makes the settings of the brokers that :mod:`anabranch.testing.broker` starts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["ADDRESS", "SCRAM", "Ports", "Tls", "login", "of_broker"]

ADDRESS = "127.0.0.1"
SCRAM = "SCRAM-SHA-512"


@dataclass(frozen=True)
class Ports:
    """The ports on which a broker listens for clients and for other controllers."""

    client: int
    controller: int


@dataclass(frozen=True)
class Tls:
    """The brokers' certificate for 127.0.0.1.

    Attributes:
        keystore: the certificate and its key, as a PKCS12 file.
        password: the password of the file and of the key.
        ca: a PEM file with the certificate authority that clients trust.
    """

    keystore: Path
    password: str
    ca: Path


def of_broker(
    index: int, ports: Sequence[Ports], racks: Sequence[str], sasl: Mapping[str, str] | None, tls: Tls | None
) -> dict[str, str]:
    """The settings of broker number ``index``, except its folder. ``ports`` has the ports of all brokers, in order."""
    client = f"CLIENT://{ADDRESS}:{ports[index].client}"
    replicas = min(3, len(ports))
    properties = {
        "process.roles": "broker,controller",
        "node.id": str(index),
        "controller.quorum.voters": ",".join(f"{node}@{ADDRESS}:{port.controller}" for node, port in enumerate(ports)),
        "listeners": f"{client},CONTROLLER://{ADDRESS}:{ports[index].controller}",
        "advertised.listeners": client,
        "listener.security.protocol.map": f"CLIENT:{_protocol(sasl, tls)},CONTROLLER:PLAINTEXT",
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
        "log.retention.ms": "-1",  # a record's age is computed from its timestamp, and a tour's records are old
    }
    if racks:
        properties["broker.rack"] = racks[index % len(racks)]
        properties["replica.selector.class"] = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
    if sasl:
        user, password = next(iter(sasl.items()))
        options = {"username": user, "password": password, **{f"user_{name}": word for name, word in sasl.items()}}
        said = " ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in options.items())
        properties["sasl.enabled.mechanisms"] = f"PLAIN,{SCRAM}"
        properties["sasl.mechanism.inter.broker.protocol"] = "PLAIN"
        properties["listener.name.client.plain.sasl.jaas.config"] = (
            f"org.apache.kafka.common.security.plain.PlainLoginModule required {said};"
        )
        properties[f"listener.name.client.{SCRAM.lower()}.sasl.jaas.config"] = (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        )
    if tls is not None:
        properties |= {
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(tls.keystore),
            "ssl.keystore.password": tls.password,
            "ssl.key.password": tls.password,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(tls.ca),
        }
    return properties


def login(sasl: Mapping[str, str] | None, tls: Tls | None) -> dict[str, str]:
    """The security settings of confluent-kafka's clients, which log in as the first user, if any."""
    properties = {"security.protocol": _protocol(sasl, tls)}
    if tls is not None:
        properties["ssl.ca.location"] = str(tls.ca)
    if sasl:
        user, password = next(iter(sasl.items()))
        properties |= {"sasl.mechanism": "PLAIN", "sasl.username": user, "sasl.password": password}
    return properties


def _protocol(sasl: Mapping[str, str] | None, tls: Tls | None) -> str:
    return f"{'SASL_' if sasl else ''}{'PLAINTEXT' if tls is None else 'SSL'}"
