"""Resolves references to secrets in settings: ``${env:NAME}`` and ``${file:PATH}``. A reference is resolved only where
the secret is used, so only the reference is stored with a job's settings. This module also recognizes secrets by their
names, and hides passwords in URLs that are shown.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from anabranch.errors import ConfigError

__all__ = ["has_reference", "hidden", "may_be_secret", "put_back", "resolved", "without_login", "without_passwords"]

_REFERENCE = re.compile(r"\$\{(env|file):([^}]*)\}")
_LOGIN = re.compile(r"(://[^/@:\s]*:)([^/\s]+)(?=@)")
"""Matches the login in a URL. The second group is the password."""
_IN_QUERY = re.compile(r"([?&;][^=?&;\s]*(?:password|secret|token)[^=?&;\s]*=)([^&\s]+)", re.IGNORECASE)
"""Matches a secret in the query of a URL, or among the parameters of a JDBC URL. The second group is the secret."""
_SECRET = re.compile(
    r"password|passphrase|secret|token|credential|jaas|key\.pem|keystore\.key|private\.key|access[._-]?key",
    re.IGNORECASE,
)
_TO_THE_LAST_AT = re.compile(r"^(.*?://)?.*@", re.DOTALL)


def has_reference(text: str) -> bool:
    return _REFERENCE.search(text) is not None


def hidden(text: str) -> tuple[str, dict[str, str]]:
    """``text`` with a placeholder for each reference, and a dict from the placeholders to the references. Used for
    texts that are parsed before their references are resolved.
    """
    references: dict[str, str] = {}

    def word(found: re.Match[str]) -> str:
        name = f"reference{len(references)}hidden"
        references[name] = found[0]
        return name

    return _REFERENCE.sub(word, text), references


def put_back(text: str, references: Mapping[str, str]) -> str:
    """``text`` with the references in place of their placeholders: the inverse of :func:`hidden`."""
    for placeholder, reference in references.items():
        text = text.replace(placeholder, reference)
    return text


def may_be_secret(name: str) -> bool:
    """Whether a setting of this name could contain a secret. The result is also True for some settings without secrets,
    such as ``token_file``.
    """
    return _SECRET.search(name) is not None


def without_passwords(text: str) -> str:
    """``text`` with ``***`` in place of each literal password in a URL: in its login, in its query, or among the
    parameters of a JDBC URL.
    """
    shown, references = hidden(text)

    def word(found: re.Match[str]) -> str:
        return found[0] if any(map(found[2].count, references)) else f"{found[1]}***"

    return put_back(_IN_QUERY.sub(word, _LOGIN.sub(word, shown)), references)


def without_login(url: str) -> str:
    """``url`` with ``***`` in place of everything that could be a login, even if the URL is malformed."""
    return _TO_THE_LAST_AT.sub(r"\1***@", url)


def resolved(setting: str, text: str) -> str:
    """``text`` with its references resolved. Line breaks at the end of a file are removed.

    Raises:
        ConfigError: a variable isn't set or a file can't be read. The message names ``setting`` and the variable or
            file, but shows no value.
    """
    return _REFERENCE.sub(lambda found: _value(setting, found[1], found[2]), text)


def _value(setting: str, kind: str, name: str) -> str:
    if kind == "env":
        if name not in os.environ:
            raise ConfigError(
                f"the setting {setting} refers to the environment variable {name!r}, which isn't set",
                f"set it where this process runs: export {name}=…",
            )
        return os.environ[name]
    try:
        with open(name, encoding="utf-8") as file:
            return file.read().rstrip("\r\n")
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it isn't UTF-8 text"
        raise ConfigError(
            f"the setting {setting} refers to the file {name!r}, which can't be read: {why}",
            "put it where this process runs, readable for its user",
        ) from None
