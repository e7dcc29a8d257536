"""What a coordinator stores of the settings: no secrets, wherever a user has put them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from anabranch import config
from anabranch.config.secrets import without_passwords
from anabranch.errors import ConfigError


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
        ("spark", "sasl.oauthbearer.assertion.private.key.passphrase"),
        ("spark", "sasl.oauthbearer.client.credentials.client.secret"),
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
        ("spark", "sasl.oauthbearer.client.credentials.client.id"),
        ("spark", "sasl.oauthbearer.assertion.private.key.file"),
    ],
)
def test_what_is_no_secret_may_be_given_as_it_is(tmp_path: Path, section: str, name: str) -> None:
    given = settings(tmp_path, section, name, "/etc/kafka")
    assert config.restored(config.dumped(given)).systems.kafka == given.systems.kafka


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        ("formats.registry", '[formats]\nregistry = "{}"'),
        ("formats.registry_client.proxy", '[formats.registry_client]\nproxy = "{}"'),
        ("systems.kafka.client.https.proxy", '[systems.kafka.client]\n"https.proxy" = "{}"'),
        ("storage.root", '[storage]\nroot = "{}"'),
        ("spark.conf.spark.mine.url", '[spark.conf]\n"spark.mine.url" = "{}"'),
        ("outputs.rows.hosts.0", '[outputs.rows]\nto = "mine:Table"\nhosts = ["{}"]'),
    ],
)
def test_a_password_in_a_url_must_be_a_reference(tmp_path: Path, setting: str, text: str) -> None:
    file = tmp_path / config.FILE_NAME
    for login in ("me:s3cret@", ":s3cret@", "${env:NAME}:s3cret@", "me:s3cret@${env:HOST}."):
        file.write_text(text.format(f"https://{login}host"))
        with pytest.raises(ConfigError, match=f"the setting {re.escape(setting)} contains a secret in plain text"):
            config.dumped(config.load(file))
    file.write_text(text.format("https://host:8081/x?user=me&password=s3cret"))
    with pytest.raises(ConfigError, match=f"the setting {re.escape(setting)} contains a secret in plain text"):
        config.dumped(config.load(file))
    for login in ("", "me@", "me:${env:PASSWORD}@", "${env:NAME}:${file:/run/password}@"):
        for query in ("", "/x?user=me&password=${env:PASSWORD}"):
            file.write_text(text.format(f"https://{login}host:8081{query}"))
            config.dumped(config.load(file))


@pytest.mark.parametrize(
    "name",
    [
        "spark.hadoop.fs.s3a.secret.key",
        "spark.hadoop.fs.s3a.access.key",
        "spark.ssl.keyPassword",
        "spark.my.accessToken",
    ],
)
def test_a_secret_of_spark_must_be_a_reference(name: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"the setting spark.conf.{name} contains a secret in plain text")):
        config.dumped(config.Settings(spark=config.SparkSettings(conf={name: "s3cret"})))
    for value in ("${env:S3_SECRET}", "true", "600s"):
        given = config.Settings(spark=config.SparkSettings(conf={name: value}))
        assert config.restored(config.dumped(given)).spark == given.spark
    harmless = {
        "spark.hadoop.fs.s3a.aws.credentials.provider": "org.apache.hadoop.fs.s3a.auth.ProfileAWSCredentialsProvider"
    }
    config.dumped(config.Settings(spark=config.SparkSettings(conf=harmless)))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://anna:s3cret@host:8081", "http://anna:***@host:8081"),
        ("http://:s3cr@t:x@host", "http://:***@host"),
        (
            "no answer of https://a:b@c/d?e=f@g, nor of jdbc:postgresql://u:p@h/db",
            "no answer of https://a:***@c/d?e=f@g, nor of jdbc:postgresql://u:***@h/db",
        ),
        ("http://${env:NAME}:s3cret@host", "http://${env:NAME}:***@host"),
        ("http://me:${file:/run/password}@host", "http://me:${file:/run/password}@host"),
        ("http://host:8081/subjects?at=me@host", "http://host:8081/subjects?at=me@host"),
        ("http://me@host", "http://me@host"),
        ("postgresql://db/x?user=u&password=s3cret&a=b", "postgresql://db/x?user=u&password=***&a=b"),
        ("jdbc:x://db;user=u;Password=s3c;ret", "jdbc:x://db;user=u;Password=***"),
        ("https://h/?api_token=s3cret no answer", "https://h/?api_token=*** no answer"),
        ("postgresql://db/x?password=${env:PASSWORD}&sslmode=require", None),
        ("https://h/token?scope=password", None),
    ],
)
def test_passwords_in_urls_are_not_shown(text: str, shown: str | None) -> None:
    assert without_passwords(text) == (text if shown is None else shown)


def test_stored_settings_may_have_zeros_that_older_versions_allowed() -> None:
    stored = {"job": {"stall_after": "0 seconds"}, "systems": {"kafka": {"transaction_timeout": "0 seconds"}}}
    for settings in (config.of_job("delays", stored), config.restored(stored)):
        assert settings.job.stall_after == settings.systems.kafka.transaction_timeout == "0 seconds"
    with pytest.raises(ConfigError, match="must be longer than 0"):
        config.load(over=stored)
    with pytest.raises(ConfigError, match="soon"):
        config.of_job("delays", {"job": {"stall_after": "soon"}})
