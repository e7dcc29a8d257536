"""Finds the jars of Spark's Kafka connector: in a configured folder, in the cache of ``anabranch jars fetch``, or
through Maven. Also finds the broker's jars in that cache."""

from __future__ import annotations

import importlib.metadata
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from anabranch import cache_dir
from anabranch.config import KafkaSettings
from anabranch.errors import ConfigError

__all__ = ["BROKER", "CONNECTOR", "OTHERS", "Jars", "broker_folder", "found", "of_pyspark"]

CONNECTOR = {
    "spark-sql-kafka-0-10_2.13": "4.2.0",
    "spark-token-provider-kafka-0-10_2.13": "4.0.0",
    "kafka-clients": "3.9.2",
    "commons-pool2": "2.13.1",
}
"""The artifacts that ``anabranch jars fetch connector`` fetches, with their versions. These artifacts were tested with
PySpark 4.3.0. (Not every Maven repository has a connector of version 4.3.0.)
"""

OTHERS = (
    f"anabranch jars fetch gets a connector {CONNECTOR['spark-sql-kafka-0-10_2.13']} that was tried with "
    "PySpark 4.3.0; or name another one in [systems.kafka] packages, or a folder with its jars in [systems.kafka] jars"
)
"""The cure if the Maven repository doesn't have the connector."""

BROKER = "4.1.0"
"""The version of the brokers whose jars ``anabranch jars fetch broker`` fetches."""


@dataclass(frozen=True)
class Jars:
    """The jars from which a session's Kafka sources and sinks are loaded. If ``paths`` is empty, the Maven coordinates
    in ``packages`` are used instead."""

    source: Literal["setting", "cache", "packages"]
    paths: tuple[Path, ...]
    packages: str

    @property
    def origin(self) -> str:
        """Where the jars come from, for messages."""
        if not self.paths:
            return f"{self.packages}, which Spark gets from a Maven repository when a job on Kafka starts"
        where = "of [systems.kafka] jars" if self.source == "setting" else "of anabranch jars fetch"
        return f"{len(self.paths)} jars {where} ({self.paths[0].parent})"

    def conf(self) -> dict[str, str]:
        """The Spark settings that add the jars to a session."""
        if self.paths:
            return {"spark.jars": ",".join(str(path) for path in self.paths)}
        return {"spark.jars.packages": self.packages}


def found(settings: KafkaSettings) -> Jars:
    """The jars for a session, from the first of these sources that applies:

    1. the configured folder
    2. the cache of ``anabranch jars fetch connector``, if it contains all jars
    3. a Maven repository, for the configured packages (by default, the connector of PySpark's version).

    Raises:
        ConfigError: the configured folder doesn't exist, or contains no connector.
    """
    packages = settings.packages or of_pyspark()
    if settings.jars is not None:
        return Jars("setting", _of_folder(settings.jars), packages)
    folder = cache_dir.folder() / f"connector-{CONNECTOR['spark-sql-kafka-0-10_2.13']}"
    paths = tuple(folder / f"{artifact}-{version}.jar" for artifact, version in CONNECTOR.items())
    if all(path.is_file() for path in paths):
        return Jars("cache", paths, packages)
    return Jars("packages", (), packages)


def of_pyspark() -> str:
    """The Maven coordinates of the connector for the installed PySpark."""
    return f"org.apache.spark:spark-sql-kafka-0-10_2.13:{importlib.metadata.version('pyspark')}"


def broker_folder() -> Path | None:
    """The folder of the broker's jars that ``anabranch jars fetch`` has fetched; None if there is none."""
    folder = cache_dir.folder() / f"broker-{BROKER}"
    return folder if (folder / f"kafka_2.13-{BROKER}.jar").is_file() else None


def _of_folder(folder: Path) -> tuple[Path, ...]:
    cure = "let [systems.kafka] jars name a folder with the connector's jars, or leave it out"
    if not folder.is_dir():
        raise ConfigError(f"[systems.kafka] jars names {folder}, which isn't a folder", cure)
    paths = tuple(sorted(folder.glob("*.jar")))
    if not paths:
        raise ConfigError(f"[systems.kafka] jars names {folder}, which has no jars in it", cure)
    if not any(path.name.startswith("spark-sql-kafka-0-10") for path in paths):
        raise ConfigError(f"[systems.kafka] jars names {folder}, which lacks spark-sql-kafka-0-10_2.13-*.jar", cure)
    return paths
