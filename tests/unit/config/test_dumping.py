"""What a coordinator stores of the settings: no secrets, wherever a user has put them."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch import config
from anabranch.errors import ConfigError
from anabranch.spark.session import session


def settings(tmp_path: Path, section: str, name: str, value: str) -> config.Settings:
    file = tmp_path / config.FILE_NAME
    file.write_text(f'[systems.kafka.{section}]\n"{name}" = "{value}"\n')
    return config.load(file)


@pytest.mark.parametrize(
    ("section", "name"),
    [
        ("client", "sasl.password"),
        ("client", "ssl.key.password"),
        ("client", "ssl.key.pem"),
        ("client", "sasl.oauthbearer.client.secret"),
        ("spark", "sasl.jaas.config"),
        ("spark", "ssl.keystore.password"),
        ("spark", "ssl.keystore.key"),
        ("spark", "sasl.login.Credentials"),
    ],
)
def test_a_secret_of_a_client_must_be_a_reference(tmp_path: Path, section: str, name: str) -> None:
    with pytest.raises(ConfigError, match=r"systems\.kafka\.\S+ contains a secret in plain text"):
        config.dumped(settings(tmp_path, section, name, "s3cret"))
    given = settings(tmp_path, section, name, "${env:KAFKA_SECRET}")
    assert config.restored(config.dumped(given)).systems.kafka == given.systems.kafka


@pytest.mark.parametrize(
    ("section", "name"),
    [
        ("client", "sasl.oauthbearer.token.endpoint.url"),
        ("client", "ssl.key.location"),
        ("client", "ssl.ca.pem"),
        ("spark", "ssl.truststore.location"),
        ("spark", "key.deserializer"),
    ],
)
def test_what_is_no_secret_may_be_given_as_it_is(tmp_path: Path, section: str, name: str) -> None:
    given = settings(tmp_path, section, name, "/etc/kafka")
    assert config.restored(config.dumped(given)).systems.kafka == given.systems.kafka


def of_spark(tmp_path: Path, name: str, value: str) -> config.Settings:
    file = tmp_path / config.FILE_NAME
    file.write_text(f'[spark.conf]\n"{name}" = "{value}"\n')
    return config.load(file)


@pytest.mark.parametrize(
    "name",
    [
        "spark.hadoop.fs.s3a.secret.key",
        "spark.hadoop.fs.s3a.session.token",
        "spark.ssl.keyPassword",
        "spark.authenticate.secret",
        "spark.kubernetes.authenticate.submission.oauthToken",
        "spark.hadoop.fs.azure.account.oauth2.client.secret",
    ],
)
def test_a_secret_of_spark_must_be_a_reference(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"spark\.conf\.\S+ contains a secret in plain text"):
        config.dumped(of_spark(tmp_path, name, "s3cret"))
    given = config.restored(config.dumped(of_spark(tmp_path, name, "${env:SECRET_OF_SPARK}")))
    monkeypatch.setenv("SECRET_OF_SPARK", "s3cret")
    assert session.conf(given)[name] == "s3cret"
    monkeypatch.delenv("SECRET_OF_SPARK")
    with pytest.raises(ConfigError, match=r"spark\.conf\.\S+ refers to the environment variable 'SECRET_OF_SPARK'"):
        session.conf(given)


@pytest.mark.parametrize(
    "name",
    [
        "spark.kubernetes.executor.secretKeyRef.DB_PASSWORD",
        "spark.kubernetes.driver.secrets.token",
        "spark.hadoop.fs.s3a.access.key",
        "spark.hadoop.fs.s3a.aws.credentials.provider",
        "spark.sql.shuffle.partitions",
    ],
)
def test_a_setting_of_spark_that_is_no_secret_may_be_given_as_it_is(tmp_path: Path, name: str) -> None:
    given = of_spark(tmp_path, name, "one:two")
    assert session.conf(config.restored(config.dumped(given)))[name] == "one:two"
