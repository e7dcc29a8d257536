"""Which jars a session with Kafka uses, and where a broker's are."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import pytest

from anabranch.config import KafkaSettings
from anabranch.errors import ConfigError
from anabranch.jars import pinned
from anabranch.systems.kafka import jars

NAMES = [f"{artifact}-{version}.jar" for artifact, version in jars.CONNECTOR.items()]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "anabranch"


def fill(folder: Path, names: list[str]) -> Path:
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).touch()
    return folder


def test_without_a_folder_or_a_cache_spark_fetches_the_packages(cache: Path) -> None:
    found = jars.found(KafkaSettings(packages="a:b:1"))
    assert found == jars.Jars("packages", (), "a:b:1")
    assert found.conf() == {"spark.jars.packages": "a:b:1"}


def test_by_default_the_connector_has_the_version_of_pyspark(cache: Path) -> None:
    version = importlib.metadata.version("pyspark")
    assert jars.found(KafkaSettings()).packages == f"org.apache.spark:spark-sql-kafka-0-10_2.13:{version}"


def test_what_was_fetched_is_used(cache: Path) -> None:
    folder = fill(cache / "connector-4.2.0", NAMES)
    found = jars.found(KafkaSettings())
    assert found.source == "cache"
    assert found.conf() == {"spark.jars": ",".join(f"{folder}/{name}" for name in NAMES)}


@pytest.mark.parametrize("missing", NAMES)
def test_a_cache_that_lacks_a_jar_is_not_used(cache: Path, missing: str) -> None:
    fill(cache / "connector-4.2.0", [name for name in NAMES if name != missing])
    assert jars.found(KafkaSettings()).source == "packages"


def test_the_folder_that_is_set_wins_with_all_its_jars(cache: Path, tmp_path: Path) -> None:
    fill(cache / "connector-4.2.0", NAMES)
    folder = fill(tmp_path / "mine", ["z.jar", "spark-sql-kafka-0-10_2.13-4.3.0.jar", "notes.txt"])
    found = jars.found(KafkaSettings(jars=folder))
    assert found.source == "setting"
    assert found.conf() == {"spark.jars": f"{folder}/spark-sql-kafka-0-10_2.13-4.3.0.jar,{folder}/z.jar"}


@pytest.mark.parametrize(
    ("names", "why"),
    [
        (None, "isn.t a folder"),
        ([], "has no jars in it"),
        (["notes.txt"], "has no jars in it"),
        (["kafka-clients-3.9.2.jar"], "lacks spark-sql-kafka-0-10"),
    ],
)
def test_a_folder_that_is_set_and_of_no_use_is_refused(
    cache: Path, tmp_path: Path, names: list[str] | None, why: str
) -> None:
    fill(cache / "connector-4.2.0", NAMES)
    folder = tmp_path / "mine"
    if names is not None:
        fill(folder, names)
    with pytest.raises(ConfigError, match=rf"\[systems.kafka\] jars names {folder}, which {why}"):
        jars.found(KafkaSettings(jars=folder))


def test_the_brokers_jars_are_those_that_were_fetched(cache: Path) -> None:
    assert jars.broker_folder() is None
    folder = fill(cache / "broker-4.1.0", ["kafka_2.13-4.1.0.jar"])
    assert jars.broker_folder() == folder


def test_the_cache_is_at_home_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = fill(tmp_path / ".cache" / "anabranch" / "broker-4.1.0", ["kafka_2.13-4.1.0.jar"])
    assert jars.broker_folder() == folder


def test_what_is_looked_for_is_what_jars_fetch_pins() -> None:
    connector, broker = pinned.jar_set("connector"), pinned.jar_set("broker")
    assert {jar.file for jar in connector.jars} == set(NAMES)
    assert broker.folder_name == f"broker-{jars.BROKER}"
    assert f"kafka_2.13-{jars.BROKER}.jar" in {jar.file for jar in broker.jars}
