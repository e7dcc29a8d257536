"""One Spark session for all tests here, and a place to run jobs in for each of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from anabranch.config import KafkaSettings, Settings, SparkSettings, StreamSettings, SystemsSettings
from anabranch.spark.session import session
from anabranch.testing.broker import Cluster
from tests.integration.harness import KafkaSite, Site
from tests.support import jvm


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.integration)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    settings = Settings(
        spark=SparkSettings(master="local[2]", memory="1g"),
        systems=SystemsSettings(default="kafka"),  # with its jars
        streams={"any": StreamSettings(format="avro")},
    )
    with pytest.MonkeyPatch.context() as patch:
        for name, value in jvm.QUICK.items():
            patch.setenv(name, value)
        started = session.start(settings, home=str(Path(__file__).parent))
    yield started
    started.stop()


@pytest.fixture
def site(spark: SparkSession, tmp_path: Path) -> Site:
    return Site(spark, tmp_path)


@pytest.fixture
def kafka(spark: SparkSession, tmp_path: Path, cluster: Cluster) -> KafkaSite:
    return KafkaSite(spark, tmp_path, KafkaSettings(bootstrap_servers=cluster.bootstrap_servers))
