"""Accesses a schema registry with Confluent's client."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from anabranch.config import FormatsSettings
from anabranch.config.secrets import resolved, without_passwords
from anabranch.errors import AnabranchError, ConfigError, NotFoundError

if TYPE_CHECKING:  # the client is an optional dependency, imported only when a registry is used
    from confluent_kafka.schema_registry import RegisteredSchema, SchemaRegistryClient
    from confluent_kafka.schema_registry.error import SchemaRegistryError

__all__ = ["Registry", "Version"]

_CLIENT = {"timeout": 15, "max.retries": 3, "retries.wait.ms": 200, "retries.max.wait.ms": 2000}
"""``timeout`` is the time limit for an answer, in seconds. If the registry can't be reached or is busy, the client
tries again up to ``max.retries`` times. The pause before the first retry is at most ``retries.wait.ms``, and no pause
is longer than ``retries.max.wait.ms``.
"""

_NOT_FOUND = 404
_UNKNOWN = (40401, 40402, 40403)
"""The error codes with which a registry says that a subject, a version or a schema doesn't exist. A 404 without one of
these codes, for example from a proxy, says nothing about the subject.
"""
_REFUSED = (401, 403)
_INCOMPATIBLE = 409

T = TypeVar("T")


@dataclass(frozen=True)
class Version:
    """A schema of a subject, as JSON, and the schema's id. This id precedes each value that is written with
    the schema.
    """

    id: int
    schema: str


class Registry:
    """A connection to a schema registry, as a context manager. All methods that send a request raise AnabranchError if
    the registry doesn't answer, or refuses the request.

    Raises:
        ConfigError: the settings name no registry, contain a reference that can't be resolved, or contain something
            that the client doesn't accept. Also raised if the client isn't installed.
    """

    def __init__(self, settings: FormatsSettings) -> None:
        if settings.registry is None:
            raise ConfigError(
                'a stream has format = "confluent", and no schema registry is set',
                'set it: [formats] registry = "http://localhost:8081"',
            )
        self._shown = without_passwords(settings.registry)
        self._client = _client(settings)

    def __enter__(self) -> Registry:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def subjects(self) -> list[str]:
        """The names of all subjects."""
        return self._ask("GET /subjects", self._client.get_subjects) or []

    def versions(self, subject: str) -> list[Version]:
        """The schemas of a subject, the oldest first; empty if none is registered.

        Raises:
            ConfigError: a schema of the subject isn't Avro, or refers to other schemas.
            AnabranchError: the registry doesn't find a version that it has listed.
        """
        path = f"GET /subjects/{quote(subject, '')}/versions"
        numbers = self._ask(path, lambda: self._client.get_versions(subject)) or []
        return [self._listed(path, subject, number) for number in sorted(numbers)]

    def _listed(self, path: str, subject: str, number: int) -> Version:
        found = self._ask(f"{path}/{number}", partial(self._client.get_version, subject, number))
        if found is None:
            raise AnabranchError(
                f"the schema registry {self._shown} lists version {number} of subject {subject!r}, and doesn't find it",
                "try again: the version has just been deleted, or one of the registry's servers lags behind",
            )
        return _version(subject, found)

    def id(self, subject: str, schema: str) -> int | None:
        """The id under which ``schema`` is registered for ``subject``; None if it isn't registered."""
        path = f"POST /subjects/{quote(subject, '')}"
        found = self._ask(path, lambda: self._client.lookup_schema(subject, _avro(schema)))
        return None if found is None else _id(found)

    def register(self, subject: str, schema: str) -> int:
        """Register a schema for a subject, unless it is registered already, and return the schema's id.

        Raises:
            ConfigError: the registry considers the schema incompatible with earlier schemas of the subject.
            NotFoundError: the registry accepts no schemas.
        """
        path = f"POST /subjects/{quote(subject, '')}/versions"
        number = self._ask(path, lambda: self._client.register_schema(subject, _avro(schema)))
        if number is None:
            raise NotFoundError(f"the schema registry {self._shown} takes no schemas", "check [formats] registry")
        return int(number)

    def _ask(self, what: str, call: Callable[[], T]) -> T | None:
        """The registry's answer to a call; None if the registry says that the requested object doesn't exist. ``what``
        is the request's HTTP method and path, for messages.
        """
        from confluent_kafka.schema_registry.error import SchemaRegistryError

        try:
            return call()
        except SchemaRegistryError as error:
            if error.http_status_code == _NOT_FOUND and error.error_code in _UNKNOWN:
                return None
            raise self._refused(what, error) from error
        except Exception as error:  # from either of two possible HTTP clients, or because the answer isn't JSON
            raise AnabranchError(
                f"the schema registry {self._shown} didn't answer {what}: "
                f"{without_passwords(str(error)) or type(error).__name__}",
                "check that it runs, and [formats] registry",
            ) from error

    def _refused(self, what: str, error: SchemaRegistryError) -> AnabranchError:
        code, message = error.http_status_code, error.error_message
        if code in _REFUSED:
            return AnabranchError(
                f"the schema registry {self._shown} refuses the login: {code}",
                "check registry_username and registry_password, or registry_client, in [formats]",
            )
        if code == _INCOMPATIBLE:
            return ConfigError(
                f"the schema registry {self._shown} refuses the schema for {what.split('/')[2]}: {message}",
                "let the schema be compatible with the ones before it, or change the subject's compatibility",
            )
        cure = "check [formats] registry, the URL of the registry" if code == _NOT_FOUND else "look at its log"
        said = f": {message}" if message else ""
        return AnabranchError(f"the schema registry {self._shown} answered {what} with {code}{said}", cure)


def _client(settings: FormatsSettings) -> SchemaRegistryClient:
    try:
        from confluent_kafka.schema_registry import SchemaRegistryClient
    except ImportError as error:
        raise ConfigError(
            f'a stream has format = "confluent", and {error.name} is missing',
            'install it: pip install "anabranch[registry]"',
        ) from error
    given: dict[str, Any] = {
        name: resolved(f"formats.registry_client.{name}", value) if isinstance(value, str) else value
        for name, value in settings.registry_client.items()
    }
    given["url"] = resolved("formats.registry", settings.registry or "")
    if settings.registry_username is not None:
        user = resolved("formats.registry_username", settings.registry_username)
        password = resolved("formats.registry_password", settings.registry_password or "")
        given["basic.auth.user.info"] = f"{user}:{password}"
    try:
        return SchemaRegistryClient({**_CLIENT, **given})
    except (ValueError, TypeError, OSError) as error:  # OSError: a certificate can't be read
        raise ConfigError(
            f"the client of the schema registry {without_passwords(settings.registry or '')} can't be made: "
            f"{without_passwords(str(error))}",
            "check registry and registry_client in [formats]",
        ) from error


def _avro(schema: str) -> Any:
    from confluent_kafka.schema_registry import Schema

    return Schema(schema, "AVRO")


def _version(subject: str, found: RegisteredSchema) -> Version:
    kind = found.schema.schema_type or "AVRO"
    if kind != "AVRO" or found.schema.references:
        what = f"is of type {kind}" if kind != "AVRO" else "refers to other schemas"
        raise ConfigError(
            f"version {found.version} of subject {subject!r} {what}, which anabranch can't read",
            'register a self-contained Avro schema, or read the stream as format = "raw"',
        )
    return Version(_id(found), str(found.schema.schema_str))


def _id(found: RegisteredSchema) -> int:
    if found.schema_id is None:
        raise AnabranchError("the schema registry gave a schema without an id", "look at its log")
    return found.schema_id
