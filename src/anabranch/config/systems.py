"""The sections ``[systems]``, ``[systems.embedded]`` and ``[systems.kafka]``."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from anabranch.config.durations import Duration
from anabranch.config.section import Section

__all__ = ["EmbeddedSettings", "KafkaSettings", "SystemName", "SystemsSettings"]


class EmbeddedSettings(Section):
    """Where the embedded log is."""

    root: Path = Path("./.anabranch/streams")
    """A local folder that holds the streams."""


class KafkaSettings(Section):
    """How to reach a Kafka cluster, and what the job keeps there; for admin, sources and outputs alike.

    Passwords may be references: ``${env:NAME}``, ``${file:PATH}``.
    """

    bootstrap_servers: str = "localhost:9092"
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = "PLAIN"
    sasl_username: str | None = None
    sasl_password: str | None = None

    # PEM files
    ssl_ca: Path | None = None
    ssl_certificate: Path | None = None
    ssl_key: Path | None = None
    ssl_key_password: str | None = None

    rack: str | None = None
    """Records are fetched from replicas in this rack, where the brokers allow that."""

    prefix: str = "anabranch"
    """What the names of transactional ids and marker groups begin with."""

    replication_factor: int = Field(default=-1, ge=-1)
    transaction_timeout: Duration = "2 minutes"

    packages: str | None = None
    """Maven coordinates of Spark's connector; None: of the version that PySpark has."""

    jars: Path | None = None
    """A folder with the connector's jars, which wins over ``packages``."""

    client: dict[str, str] = {}
    """Further settings of librdkafka's clients."""

    spark: dict[str, str] = {}
    """Further settings of Java's clients, which Spark uses."""


SystemName = Literal["embedded", "kafka"]


class SystemsSettings(Section):
    """The systems that streams can live in; ``default`` is that of streams which aren't bound to one."""

    default: SystemName = "embedded"
    embedded: EmbeddedSettings = EmbeddedSettings()
    kafka: KafkaSettings = KafkaSettings()
