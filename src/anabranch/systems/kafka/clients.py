"""Turns settings into properties for Kafka's clients: librdkafka's (confluent-kafka) and Java's (Spark)."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from anabranch.config import KafkaSettings
from anabranch.config.addresses import host_and_port
from anabranch.config.secrets import has_reference, resolved
from anabranch.errors import ConfigError

__all__ = ["credentials", "first_server", "java", "librdkafka", "secrets", "shown"]

_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_PKCS1 = "RSA PRIVATE KEY", "EC PRIVATE KEY", "DSA PRIVATE KEY"
_SECRET_WORDS = "password", "secret", "token", "pem", "jaas", "key"
_CREDENTIALS = {"sasl_username": "sasl.username", "sasl_password": "sasl.password"}
_SASL_BY_HAND = {"sasl.mechanism", "sasl.mechanisms", "sasl.jaas.config", "sasl.username"}

_RECONNECTS_WITHIN_MS = 1000
"""The longest pause between two attempts to connect to a broker. By default, librdkafka pauses for up to ten seconds,
even if the broker is already back."""

_log = logging.getLogger(__name__)


class _Demoted:
    """Logs librdkafka's messages at debug level, because users see anabranch's own errors instead."""

    def log(self, level: int, message: str, *args: object) -> None:
        _log.debug(message, *args)


def librdkafka(settings: KafkaSettings) -> dict[str, Any]:
    """Properties of confluent-kafka's clients. Properties in ``[systems.kafka] client`` take precedence.

    Raises:
        ConfigError: a reference can't be resolved, a file can't be read, a server's address isn't valid, or the user or
            the password for SASL is missing.
    """
    properties: dict[str, Any] = {
        "allow.auto.create.topics": False,  # otherwise, a lane would create an output that was deleted, as an empty one
        **({} if "reconnect.backoff.ms" in settings.client else {"reconnect.backoff.max.ms": _RECONNECTS_WITHIN_MS}),
        **_common(settings, settings.client),
        **_files(settings, {"ssl_ca": "ssl.ca.location", "ssl_certificate": "ssl.certificate.location"}),
        **_files(settings, {"ssl_key": "ssl.key.location"}),
        **_texts(settings, {"ssl_key_password": "ssl.key.password"}),
    }
    if "sasl.mechanism" in properties:
        properties |= _texts(settings, _CREDENTIALS)
    return {**properties, **_extra("client", settings.client), "logger": _Demoted()}


def credentials(settings: KafkaSettings) -> tuple[str, str]:
    """The current user and password of confluent-kafka's clients; '' in place of a value that isn't set. Raises
    ConfigError if a reference can't be resolved."""
    own = {name: text for name, text in settings.client.items() if name in _CREDENTIALS.values()}
    found = {**_texts(settings, _CREDENTIALS), **_extra("client", own)}
    user, password = (found.get(name, "") for name in _CREDENTIALS.values())
    return user, password


def java(settings: KafkaSettings) -> dict[str, str]:
    """Properties of Java's clients, without Spark's prefix ``kafka.``. Properties in ``[systems.kafka] spark``
    take precedence.

    The truststore is passed as a path. The key and the certificate are passed as contents.

    Raises:
        ConfigError: as for :func:`librdkafka`, or the key isn't in PKCS#8.
    """
    properties = {
        **_common(settings, settings.spark),
        **_files(settings, {"ssl_ca": "ssl.truststore.location"}),
        **_texts(settings, {"ssl_key_password": "ssl.key.password"}),
    }
    if "ssl.truststore.location" in properties:
        properties["ssl.truststore.type"] = "PEM"
    if settings.ssl_certificate is not None and settings.ssl_key is not None:
        properties["ssl.keystore.type"] = "PEM"
        properties["ssl.keystore.certificate.chain"] = _content("ssl_certificate", settings.ssl_certificate)
        properties["ssl.keystore.key"] = _pkcs8(settings.ssl_key)
    if "sasl.mechanism" in properties and settings.sasl_username is not None:
        user = resolved("systems.kafka.sasl_username", settings.sasl_username)
        password = resolved("systems.kafka.sasl_password", settings.sasl_password or "")
        properties["sasl.jaas.config"] = (
            f"{_MODULES[settings.sasl_mechanism]} required username={_quoted(user)} password={_quoted(password)};"
        )
    return {**properties, **_extra("spark", settings.spark)}


def shown(settings: KafkaSettings) -> str:
    """The cluster's name, as shown in log and error messages. References stay unresolved, and no password is shown."""
    if settings.security_protocol == "PLAINTEXT":
        return settings.bootstrap_servers
    words: list[str] = [settings.security_protocol]
    if settings.security_protocol.startswith("SASL"):
        words += [settings.sasl_mechanism, f"user {settings.sasl_username}"]
    return f"{settings.bootstrap_servers} ({', '.join(words)})"


def first_server(settings: KafkaSettings) -> str:
    """The first bootstrap server, as ``HOST:PORT``. Raises ConfigError if a reference or an address isn't valid."""
    return _servers(settings).split(",")[0].strip().rpartition("://")[2]


def secrets(settings: KafkaSettings) -> list[str]:
    """The values that must not appear in librdkafka's messages. Secrets in ``[systems.kafka] spark`` are left out,
    because librdkafka doesn't get them.
    """
    texts = {"sasl_password": settings.sasl_password, "ssl_key_password": settings.ssl_key_password}
    extras = {f"client.{name}": text for name, text in settings.client.items()}
    hidden = [resolved(f"systems.kafka.{name}", text) for name, text in texts.items() if text is not None]
    for name, text in extras.items():
        if has_reference(text) or any(word in name for word in _SECRET_WORDS):
            hidden.append(resolved(f"systems.kafka.{name}", text))
    return [value for value in hidden if value]


def _common(settings: KafkaSettings, extra: dict[str, str]) -> dict[str, str]:
    properties = {
        "bootstrap.servers": _servers(settings),
        "security.protocol": settings.security_protocol,
        **_texts(settings, {"rack": "client.rack"}),
    }
    if settings.security_protocol.startswith("SASL"):
        properties["sasl.mechanism"] = settings.sasl_mechanism
        unset = [name for name in ("sasl_username", "sasl_password") if getattr(settings, name) is None]
        if unset and not _SASL_BY_HAND & extra.keys():
            raise ConfigError(
                f"[systems.kafka] has security_protocol = {settings.security_protocol} and no {' and '.join(unset)}",
                "set sasl_username, and sasl_password to a reference such as ${env:KAFKA_PASSWORD}",
            )
    return properties


def _servers(settings: KafkaSettings) -> str:
    """The configured servers. Raises ConfigError if one of them doesn't have the form ``HOST:PORT``. (Kafka's own
    clients accept any port, or none.)"""
    servers = resolved("systems.kafka.bootstrap_servers", settings.bootstrap_servers)
    for each in servers.split(","):
        try:
            host_and_port(each.strip().rpartition("://")[2])
        except ValueError as error:
            raise ConfigError(
                f"[systems.kafka] bootstrap_servers: {error}", "write HOST:PORT, several separated by commas"
            ) from None
    return servers


def _texts(settings: KafkaSettings, names: dict[str, str]) -> dict[str, str]:
    texts = {name: getattr(settings, name) for name in names}
    return {names[name]: resolved(f"systems.kafka.{name}", text) for name, text in texts.items() if text is not None}


def _files(settings: KafkaSettings, names: dict[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, key in names.items():
        path = getattr(settings, name)
        if path is not None:
            found[key] = resolved(f"systems.kafka.{name}", str(path))
            _readable(name, found[key])
    return found


def _extra(section: str, extra: dict[str, str]) -> dict[str, str]:
    return {name: resolved(f"systems.kafka.{section}.{name}", text) for name, text in extra.items()}


def _content(name: str, path: Path) -> str:
    return _readable(name, resolved(f"systems.kafka.{name}", str(path)))


def _readable(name: str, path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it isn't text"
        raise ConfigError(
            f"{path}, the setting systems.kafka.{name}, can't be read: {why}",
            "name an existing PEM file that this user can read",
        ) from None


def _pkcs8(path: Path) -> str:
    key = _content("ssl_key", path)
    if any(f"BEGIN {kind}" in key for kind in _PKCS1):
        raise ConfigError(
            f"the key in {path}, the setting systems.kafka.ssl_key, isn't in PKCS#8, the only form that Java reads",
            "convert it: openssl pkcs8 -topk8 -nocrypt -in KEY -out KEY.pk8, and name KEY.pk8",
        )
    return key


def _quoted(text: str) -> str:
    """A string quoted for a JAAS configuration, which Java's ``StreamTokenizer`` parses."""
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return '"' + "".join(escapes.get(letter, letter) for letter in text) + '"'
