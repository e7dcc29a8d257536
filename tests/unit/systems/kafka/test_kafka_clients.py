"""What Kafka's clients are given from the settings; secrets come from where they are and show nowhere."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient

from anabranch.config import KafkaSettings
from anabranch.errors import ConfigError
from anabranch.systems.kafka import clients
from anabranch.systems.kafka.cluster import Cluster, Health

SCRAM: dict[str, Any] = {
    "bootstrap_servers": "broker:9093",
    "security_protocol": "SASL_SSL",
    "sasl_mechanism": "SCRAM-SHA-512",
    "sasl_username": "alice",
    "sasl_password": "s3cret",
}


def librdkafka(**settings: Any) -> dict[str, Any]:
    properties = clients.librdkafka(KafkaSettings(**settings))
    del properties["logger"]
    assert properties.pop("reconnect.backoff.max.ms") == 1000
    assert properties.pop("allow.auto.create.topics") is False
    return properties


def java(**settings: Any) -> dict[str, str]:
    return clients.java(KafkaSettings(**settings))


def test_a_plain_cluster_needs_its_address_only() -> None:
    plain = {"bootstrap.servers": "localhost:9092", "security.protocol": "PLAINTEXT"}
    assert librdkafka() == plain
    assert java() == plain


def test_how_soon_a_broker_is_tried_again_can_be_chosen() -> None:
    chosen = KafkaSettings(client={"reconnect.backoff.max.ms": "20000"})
    assert clients.librdkafka(chosen)["reconnect.backoff.max.ms"] == "20000"
    longer = KafkaSettings(client={"reconnect.backoff.ms": "5000"})
    assert "reconnect.backoff.max.ms" not in clients.librdkafka(longer), "it must not be less"


@pytest.mark.parametrize(("kind", "own"), [(Producer, {}), (Consumer, {"group.id": "g"}), (AdminClient, {})])
def test_no_client_lets_brokers_create_topics_unless_told_to(kind: Any, own: dict[str, Any]) -> None:
    settings = KafkaSettings(bootstrap_servers="127.0.0.1:1")
    kind({**clients.librdkafka(settings), **own})
    chosen = KafkaSettings(client={"allow.auto.create.topics": "true"})
    assert clients.librdkafka(chosen)["allow.auto.create.topics"] == "true"


def test_both_clients_log_in_alike() -> None:
    common = {
        "bootstrap.servers": "broker:9093",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "client.rack": "r1",
    }
    assert librdkafka(**SCRAM, rack="r1") == {**common, "sasl.username": "alice", "sasl.password": "s3cret"}
    assert java(**SCRAM, rack="r1") == {
        **common,
        "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="alice" password="s3cret";',
    }


def test_the_login_module_is_that_of_the_mechanism() -> None:
    plain = java(**{**SCRAM, "sasl_mechanism": "PLAIN"})["sasl.jaas.config"]
    assert plain.startswith("org.apache.kafka.common.security.plain.PlainLoginModule required ")


@pytest.mark.parametrize(
    ("password", "quoted"),
    [
        ("", '""'),
        ('a"b', r'"a\"b"'),
        ("a\\b", r'"a\\b"'),
        ('\\"', r'"\\\""'),
        ("a;b 'c' ü=", "\"a;b 'c' ü=\""),
        ("a\nb\tc\r", r'"a\nb\tc\r"'),
    ],
)
def test_passwords_are_quoted_for_java_only(password: str, quoted: str) -> None:
    settings = {**SCRAM, "sasl_password": password}
    assert java(**settings)["sasl.jaas.config"].endswith(f" password={quoted};")
    assert librdkafka(**settings)["sasl.password"] == password


def test_certificates_are_pem_files(tmp_path: Path) -> None:
    files = {name: tmp_path / f"{name}.pem" for name in ("ca", "certificate", "key")}
    for name, path in files.items():
        path.write_text(f"-----BEGIN {name.upper()}-----\n")
    settings = {
        "security_protocol": "SSL",
        "ssl_key_password": "s3cret",
        **{f"ssl_{name}": path for name, path in files.items()},
    }
    common = {
        "bootstrap.servers": "localhost:9092",
        "security.protocol": "SSL",
        "ssl.key.password": "s3cret",
    }
    assert librdkafka(**settings) == {
        **common,
        "ssl.ca.location": str(files["ca"]),
        "ssl.certificate.location": str(files["certificate"]),
        "ssl.key.location": str(files["key"]),
    }
    assert java(**settings) == {
        **common,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(files["ca"]),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": "-----BEGIN CERTIFICATE-----\n",
        "ssl.keystore.key": "-----BEGIN KEY-----\n",
    }


def test_a_key_that_java_cannot_read_is_refused(tmp_path: Path) -> None:
    key = tmp_path / "key.pem"
    key.write_text("-----BEGIN RSA PRIVATE KEY-----\nabc\n")
    with pytest.raises(ConfigError, match="PKCS#8") as error:
        java(security_protocol="SSL", ssl_certificate=key, ssl_key=key)
    assert "abc" not in str(error.value)


def test_a_certificate_that_is_not_there_is_named(tmp_path: Path) -> None:
    for made in (librdkafka, java):
        with pytest.raises(ConfigError, match=r"ca\.pem, the setting systems\.kafka\.ssl_ca, can't be read: No such"):
            made(security_protocol="SSL", ssl_ca=tmp_path / "ca.pem")


def test_references_are_resolved_when_they_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = tmp_path / "secret"
    secret.write_text("pass word\r\n")
    monkeypatch.setenv("KAFKA_HOST", "elsewhere")
    monkeypatch.setenv("NAME", "elsewhere")
    settings = KafkaSettings(
        **{
            **SCRAM,
            "bootstrap_servers": "${env:KAFKA_HOST}:9093,${env:KAFKA_HOST}:9094",
            "sasl_password": f"${{file:{secret}}}",
            "client": {"client.id": "on-${env:NAME}"},
            "spark": {"client.dns.lookup": "${env:KAFKA_HOST}"},
        }
    )
    made = clients.librdkafka(settings)
    assert made["bootstrap.servers"] == "elsewhere:9093,elsewhere:9094"
    assert made["sasl.password"] == "pass word"
    assert made["client.id"] == "on-elsewhere"
    assert "client.dns.lookup" not in made
    assert clients.java(settings)["client.dns.lookup"] == "elsewhere"
    assert "client.id" not in clients.java(settings)
    monkeypatch.setenv("NAME", "${env:HOME}")
    assert clients.librdkafka(settings)["client.id"] == "on-${env:HOME}", "a value is no reference"


@pytest.mark.parametrize("setting", ["sasl_password", "sasl_username", "bootstrap_servers"])
def test_a_reference_that_leads_nowhere_is_named(setting: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAFKA_NOTHING", raising=False)
    missing = tmp_path / "missing"
    for text, told in (("${env:KAFKA_NOTHING}", "KAFKA_NOTHING"), (f"${{file:{missing}}}", str(missing))):
        for made in (librdkafka, java):
            with pytest.raises(ConfigError, match=rf"systems\.kafka\.{setting} ") as error:
                made(**{**SCRAM, setting: f"v4lue{text}"})
            assert told in error.value.what
            assert "v4lue" not in str(error.value)
            assert "s3cret" not in str(error.value)


def test_a_reference_among_the_extras_that_leads_nowhere_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAFKA_NOTHING", raising=False)
    with pytest.raises(ConfigError, match=r"systems\.kafka\.client\.client\.id .*KAFKA_NOTHING"):
        librdkafka(client={"client.id": "${env:KAFKA_NOTHING}"})
    with pytest.raises(ConfigError, match=r"systems\.kafka\.spark\.client\.id .*KAFKA_NOTHING"):
        java(spark={"client.id": "${env:KAFKA_NOTHING}"})


def test_extras_win() -> None:
    assert librdkafka(client={"security.protocol": "ssl"})["security.protocol"] == "ssl"
    assert java(spark={"security.protocol": "SSL"})["security.protocol"] == "SSL"


def test_a_login_without_a_user_is_refused_unless_it_is_given_by_hand() -> None:
    for made in (librdkafka, java):
        with pytest.raises(ConfigError, match="SASL_SSL and no sasl_username and sasl_password"):
            made(security_protocol="SASL_SSL")
    by_hand = librdkafka(security_protocol="SASL_SSL", client={"sasl.mechanism": "GSSAPI"})
    assert by_hand["sasl.mechanism"] == "GSSAPI"
    assert "sasl.username" not in by_hand
    assert java(security_protocol="SASL_SSL", spark={"sasl.jaas.config": "x;"})["sasl.jaas.config"] == "x;"


def test_what_is_shown_has_no_secret() -> None:
    assert clients.shown(KafkaSettings()) == "localhost:9092"
    assert clients.shown(KafkaSettings(security_protocol="SSL")) == "localhost:9092 (SSL)"
    assert clients.shown(KafkaSettings(**SCRAM)) == "broker:9093 (SASL_SSL, SCRAM-SHA-512, user alice)"
    unresolved = KafkaSettings(**{**SCRAM, "sasl_username": "${env:KAFKA_NOTHING}"})
    assert clients.shown(unresolved) == "broker:9093 (SASL_SSL, SCRAM-SHA-512, user ${env:KAFKA_NOTHING})"


@pytest.mark.parametrize(
    ("extra", "told"),
    [
        ({"no.such.setting": "x"}, 'No such configuration property: "no.such.setting"'),
        ({"security.protocol": "s3cret"}, 'Invalid value "…" for configuration property "security.protocol"'),
        ({"acks": "v4lue-of-a-reference"}, "…"),
    ],
)
def test_a_setting_that_the_client_refuses_is_named_and_secrets_are_not(
    extra: dict[str, str], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from confluent_kafka import Producer

    monkeypatch.setenv("KAFKA_VALUE", "v4lue-of-a-reference")
    extra = {key: "${env:KAFKA_VALUE}" if value.startswith("v4lue") else value for key, value in extra.items()}
    with pytest.raises(ConfigError, match="refuses") as error:
        Cluster(KafkaSettings(**SCRAM, client=extra)).open(Producer)
    assert "s3cret" not in str(error.value)
    assert "v4lue" not in str(error.value)
    if told != "…":
        assert told in str(error.value)


def test_what_librdkafka_says_is_logged_at_debug_level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    clients.librdkafka(KafkaSettings())["logger"].log(40, "FAIL [%s] %s", "client", "refused")
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (logging.DEBUG, "FAIL [client] refused")
    ]


@pytest.mark.parametrize(
    ("said", "refused"),
    [
        ("SASL authentication error: Authentication failed: Invalid username or password", True),
        (
            "SASL PLAIN mechanism handshake failed: Local: Broker transport failure: broker's supported mechanisms",
            False,
        ),
    ],
)
def test_a_broker_that_goes_away_while_one_logs_in_has_not_refused_it(said: str, refused: bool) -> None:
    health = Health()
    health(KafkaError(KafkaError._AUTHENTICATION, said))
    assert (health.refused is not None) == refused
    assert health.last == said
