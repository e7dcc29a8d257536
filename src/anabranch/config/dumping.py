"""Brings settings into the form in which a coordinator stores them: everything that was set, except ``[coordinator]``.
Secrets must be references. Not all secrets are recognized, and ``[spark.conf]`` isn't searched."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from anabranch.config.secrets import has_reference, hidden
from anabranch.config.settings import Settings
from anabranch.errors import ConfigError

__all__ = ["dumped"]

_SECRET = re.compile(r"password|secret|token|credential", re.IGNORECASE)
_SECRETS_OF_REGISTRY = {"basic.auth.user.info", "bearer.auth.client.secret", "bearer.auth.token", "ssl.key.password"}
_LOGIN = re.compile(r"://[^/@]*?:([^/@]+)@")
"""Matches the login in a URL. The group is the password."""
_UNSEARCHED = "spark.conf."


def dumped(settings: Settings) -> dict[str, Any]:
    """Everything that was set outside of ``[coordinator]``, as plain data for :func:`anabranch.config.restored`.

    Raises:
        ConfigError: a recognized secret is given literally.
    """
    stored: dict[str, Any] = settings.model_dump(mode="json", exclude_unset=True, exclude={"coordinator"})
    formats = settings.formats
    secrets = {
        **{
            f"systems.{name}.{setting}": text
            for name, section in settings.systems.sections.items()
            for setting, text in section.secrets.items()
        },
        "formats.registry_password": formats.registry_password,
        **{
            f"formats.registry_client.{name}": str(value)
            for name, value in formats.registry_client.items()
            if name in _SECRETS_OF_REGISTRY
        },
        **{
            f"{section}.{setting}": text
            for section, options in _free(settings)
            for setting, text in _texts(options)
            if _SECRET.search(setting)
        },
    }
    plain = [name for name, text in secrets.items() if text is not None and not has_reference(text)]
    plain += [name for name, text in _texts(stored) if not name.startswith(_UNSEARCHED) and _has_password(text)]
    if plain:
        raise ConfigError(
            f"the setting {plain[0]} contains a secret in plain text, and a coordinator stores the settings of jobs",
            "write a reference instead, to be resolved where containers run: ${env:NAME} or ${file:PATH}",
        )
    return stored


def _free(settings: Settings) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The sections, by name, whose settings are defined by a kind of table or a user's class. This module doesn't know
    which of these settings are secrets.
    """
    yield from ((f"outputs.{name}", output.options) for name, output in settings.outputs.items())
    yield from ((f"systems.{name}", section.options) for name, section in settings.systems.others.items())


def _texts(options: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    """All texts in nested settings, with the settings' dotted names."""
    for name, value in options.items():
        if isinstance(value, Mapping):
            yield from _texts(value, f"{before}{name}.")
        elif isinstance(value, list):
            yield from _texts({str(number): each for number, each in enumerate(value)}, f"{before}{name}.")
        elif isinstance(value, str):
            yield f"{before}{name}", value


def _has_password(text: str) -> bool:
    """Whether a text contains a URL with a literal password."""
    without, references = hidden(text)
    return any(not any(name in login[1] for name in references) for login in _LOGIN.finditer(without))
