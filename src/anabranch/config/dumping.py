"""Converts settings into the form in which a coordinator stores them. This form contains everything that was set,
except ``[coordinator]``. Settings that contain a literal secret instead of a reference are refused if the secret is
recognized.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from anabranch.config.secrets import has_reference, without_passwords
from anabranch.config.settings import Settings
from anabranch.config.spark import names_secret
from anabranch.errors import ConfigError

__all__ = ["dumped"]

_SECRET = re.compile(r"password|secret|token|credential", re.IGNORECASE)
_SECRETS_OF_REGISTRY = {"basic.auth.user.info", "bearer.auth.client.secret", "bearer.auth.token", "ssl.key.password"}
_NO_SECRET = re.compile(r"true|false|[0-9]+(ms|s|m|min|h|d)", re.IGNORECASE)
"""Matches values that aren't secrets, whatever the name of the Spark property is."""


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
            f"spark.conf.{name}": text
            for name, text in settings.spark.conf.items()
            if names_secret(name) and not _NO_SECRET.fullmatch(text)
        },
        **{
            f"{section}.{setting}": text
            for section, options in _free(settings)
            for setting, text in _texts(options)
            if _SECRET.search(setting)
        },
    }
    plain = [name for name, text in secrets.items() if text is not None and not has_reference(text)]
    plain += [name for name, text in _texts(stored) if without_passwords(text) != text]
    if plain:
        raise ConfigError(
            f"the setting {plain[0]} contains a secret in plain text, and a coordinator stores the settings of jobs",
            "write a reference instead, to be resolved where containers run: ${env:NAME} or ${file:PATH}",
        )
    return stored


def _free(settings: Settings) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """For each output to a table, and for each system that anabranch doesn't ship, yields the name of the section, and
    those of its settings that the table or the system defines.
    """
    yield from ((f"outputs.{name}", output.options) for name, output in settings.outputs.items())
    yield from ((f"systems.{name}", section.options) for name, section in settings.systems.others.items())


def _texts(options: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    """Yields a pair for each string in nested settings: the setting's dotted name, with ``before`` in front of it, and
    the string.
    """
    for name, value in options.items():
        if isinstance(value, Mapping):
            yield from _texts(value, f"{before}{name}.")
        elif isinstance(value, list):
            yield from _texts({str(number): each for number, each in enumerate(value)}, f"{before}{name}.")
        elif isinstance(value, str):
            yield f"{before}{name}", value
