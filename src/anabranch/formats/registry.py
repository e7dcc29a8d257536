"""A schema registry with Confluent's REST interface, as far as jobs need it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from anabranch.config import FormatsSettings
from anabranch.config.secrets import resolved
from anabranch.errors import AnabranchError, ConfigError, NotFoundError
from anabranch.httpx_alone import httpx

__all__ = ["Registry", "Version"]

_CONTENT = "application/vnd.schemaregistry.v1+json"
_PATIENCE = 15.0
_NOT_FOUND = 404
_REFUSED = (401, 403)
_INCOMPATIBLE = 409


@dataclass(frozen=True)
class Version:
    """A schema of a subject. ``id`` is what values carry."""

    id: int
    schema: str


class Registry:
    """Answers are fresh. Use it as a context manager.

    Raises:
        ConfigError: settings name no registry, or a reference that leads nowhere.
    """

    def __init__(self, settings: FormatsSettings) -> None:
        if settings.registry is None:
            raise ConfigError(
                'a stream has format = "confluent", and no schema registry is set',
                'set it: [formats] registry = "http://localhost:8081"',
            )
        self._shown = settings.registry
        user, password = settings.registry_username, settings.registry_password
        login = None
        if user is not None:
            login = (resolved("formats.registry_username", user), resolved("formats.registry_password", password or ""))
        url = resolved("formats.registry", settings.registry).rstrip("/")
        self._client = httpx.Client(base_url=url, auth=login, timeout=_PATIENCE, headers={"Accept": _CONTENT})

    def __enter__(self) -> Registry:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def subjects(self) -> list[str]:
        """The names of all subjects."""
        found: list[str] = self._ask("GET", "/subjects") or []
        return found

    def versions(self, subject: str) -> list[Version]:
        """The schemas of a subject, oldest first; none if nobody has registered any.

        Raises:
            ConfigError: one of them isn't Avro, or refers to others.
        """
        numbers = self._ask("GET", f"/subjects/{quote(subject, '')}/versions") or []
        told = [self._ask("GET", f"/subjects/{quote(subject, '')}/versions/{number}") for number in sorted(numbers)]
        return [_version(subject, each) for each in told if each is not None]

    def id(self, subject: str, schema: str) -> int | None:
        """The id of a schema of a subject; None if it isn't registered there."""
        told = self._ask("POST", f"/subjects/{quote(subject, '')}", {"schema": schema})
        return None if told is None else int(told["id"])

    def register(self, subject: str, schema: str) -> int:
        """Make a schema one of a subject's, if it isn't yet; gives its id.

        Raises:
            ConfigError: the registry holds it for incompatible with the ones before.
        """
        told = self._ask("POST", f"/subjects/{quote(subject, '')}/versions", {"schema": schema})
        if told is None:
            raise NotFoundError(f"the schema registry {self._shown} takes no schemas", "check [formats] registry")
        return int(told["id"])

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """The parsed answer; None if there is no such thing."""
        try:
            answer = self._client.request(method, path, json=body)
            if answer.status_code == _NOT_FOUND:
                return None
            if answer.is_success:
                return answer.json()
        except (httpx.HTTPError, ValueError) as error:
            raise AnabranchError(
                f"the schema registry {self._shown} didn't answer {method} {path}: {error or type(error).__name__}",
                "check that it runs, and [formats] registry",
            ) from error
        if answer.status_code in _REFUSED:
            raise AnabranchError(
                f"the schema registry {self._shown} refuses the login: {answer.status_code}",
                "check registry_username and registry_password in [formats]",
            )
        if answer.status_code == _INCOMPATIBLE:
            raise ConfigError(
                f"the schema registry {self._shown} refuses the schema for {path.split('/')[2]}: {_said(answer)}",
                "let the schema be compatible with the ones before it, or change the subject's compatibility",
            )
        raise AnabranchError(
            f"the schema registry {self._shown} answered {method} {path} with {answer.status_code}: {_said(answer)}",
            "look at its log",
        )


def _version(subject: str, told: Mapping[str, Any]) -> Version:
    kind = told.get("schemaType", "AVRO")
    if kind != "AVRO" or told.get("references"):
        what = f"is of type {kind}" if kind != "AVRO" else "refers to other schemas"
        raise ConfigError(
            f"version {told.get('version')} of subject {subject!r} {what}, which anabranch can't read",
            'register a self-contained Avro schema, or read the stream as format = "raw"',
        )
    return Version(int(told["id"]), str(told["schema"]))


def _said(answer: httpx.Response) -> str:
    try:
        return str(answer.json().get("message", answer.text))
    except ValueError:
        return answer.text[:200]
