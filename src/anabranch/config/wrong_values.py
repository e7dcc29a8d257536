"""Says which value of a setting isn't allowed, and why, without showing secrets."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic_core import ErrorDetails

from anabranch.config.secrets import may_be_secret, without_login, without_passwords

__all__ = ["explanation"]

_TABLES = frozenset({"dict_type", "model_type"})
"""The types of pydantic's errors for a value that should be a table. If the value is a string, it could contain the
whole table, including secrets.
"""


def explanation(setting: str, first: ErrorDetails) -> str:
    """What is wrong with a setting's value, according to pydantic's error ``first``. The value is shown only if it is a
    number, a string or null. It is never shown if a name in the setting's path suggests a secret, or if it is a string
    where a table belongs.
    """
    why = without_passwords(first["msg"].removeprefix("Value error, "))
    value = first.get("input")
    if not _may_be_shown([setting, *map(str, first["loc"])], first["type"], value):
        return f"{setting} has a value that isn't allowed: {why}"
    shown = without_passwords(without_login(value)) if isinstance(value, str) else value
    return f"{setting} has the value {shown!r}: {why}"


def _may_be_shown(names: Iterable[str], kind: str, value: object) -> bool:
    if any(map(may_be_secret, names)) or (isinstance(value, str) and kind in _TABLES):
        return False
    return value is None or isinstance(value, str | int | float)
