"""Reads settings: from ``anabranch.toml`` and environment variables, which take precedence, or from the data that a
coordinator has stored."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from anabranch.config import mistakes, paths
from anabranch.config.durations import STORED
from anabranch.config.settings import Settings
from anabranch.errors import ConfigError, NotFoundError

__all__ = ["FILE_NAME", "PREFIX", "drop_environment", "load", "of_job", "read_toml", "restored"]

FILE_NAME = "anabranch.toml"
PREFIX = "ANABRANCH__"
_OF_MACHINE = ("coordinator", "spark")
"""The sections whose settings depend on the machine. A coordinator's containers get them from its environment."""


def load(file: Path | None = None, beside: Path | None = None, over: Mapping[str, Any] | None = None) -> Settings:
    """Read the settings from the configuration file and from environment variables, which take precedence. Relative
    paths become absolute: they are resolved from the file's folder or, without a file, from the working folder.

    Args:
        file: the configuration file, which must exist; None to look for ``anabranch.toml``, which need not exist.
        beside: a job file. Its folder is searched for ``anabranch.toml`` before the working folder is.
        over: sections of settings that take precedence over the file and the environment.

    Raises:
        NotFoundError: ``file`` doesn't exist.
        ConfigError: the file can't be read or isn't TOML in UTF-8, a section in the environment isn't a JSON object, a
            name is unknown, a value isn't allowed, or the home folder in a path isn't known.
    """
    path = _find(file, beside)
    parsed = {} if path is None else read_toml(path)
    merged = _merge(_merge(parsed, _environment()), dict(over or {}))
    try:
        settings = Settings(**merged)
    except ValidationError as error:
        raise ConfigError(*mistakes.explained(error, path)) from error
    return paths.absolute(settings, path.parent if path is not None else Path.cwd())


def read_toml(path: Path) -> dict[str, Any]:
    """The content of a TOML file. TOML is UTF-8, whatever the locale is; a byte order mark is ignored. Raises
    ConfigError if the file can't be read, isn't UTF-8, or isn't TOML.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not TOML: {error}", "fix the line that it names") from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            f"{path} is not UTF-8: there is a byte 0x{error.object[error.start]:02x} in line {line}",
            "save the file as UTF-8",
        ) from error
    except OSError as error:
        raise ConfigError(f"{path} can't be read: {error.strerror}", "let this user read it") from error


def environment_of_containers() -> dict[str, str]:
    """The environment for containers of jobs whose settings are stored: this process's environment without anabranch's
    settings. Only the sections in ``_OF_MACHINE``, and the settings in them, stay.
    """
    return {name: text for name, text in os.environ.items() if _section(name) in (None, *_OF_MACHINE)}


def drop_environment() -> list[str]:
    """Remove anabranch's settings from this process's environment, so that neither this process nor the processes that
    it starts obey them. Returns the names of the removed variables.
    """
    names = sorted(name for name in os.environ if _section(name) is not None)
    for name in names:
        del os.environ[name]
    return names


def restored(dumped: Mapping[str, Any]) -> Settings:
    """Settings from data that :func:`anabranch.config.dumped` made; environment variables take precedence. Raises
    ConfigError if a setting is unknown or isn't allowed.
    """
    try:
        settings = Settings.model_validate(_merge(dict(dumped), _environment()), context=STORED)
    except ValidationError as error:
        raise ConfigError(*mistakes.explained(error, None)) from error
    return paths.absolute(settings, Path.cwd())


def of_job(job: str, dumped: Mapping[str, Any]) -> Settings:
    """The settings with which a job was started, from the data that the coordinator has stored, without environment
    variables.

    Raises:
        ConfigError: this version of anabranch doesn't know one of the settings, or doesn't allow its value.
    """
    try:
        return Settings.model_validate(dumped, context=STORED)
    except ValidationError as error:
        what, cure = mistakes.explained(error, None)
        raise ConfigError(
            f"the settings that job {job!r} was started with: {what}",
            f"{cure}; if another version of anabranch started the job, run that version here, or start or deploy the "
            "job again",
        ) from error


def _find(file: Path | None, beside: Path | None) -> Path | None:
    if file is not None:
        if not file.is_file():
            raise NotFoundError(f"there is no configuration file {file}", "name an existing one with --config")
        return file.resolve()
    for folder in ([beside.parent] if beside is not None else []) + [Path.cwd()]:
        if (folder / FILE_NAME).is_file():
            return (folder / FILE_NAME).resolve()
    return None


def _section(name: str) -> str | None:
    """The section that an environment variable sets, as a whole or in part. None if the variable is no setting."""
    return name[len(PREFIX) :].split("__", maxsplit=1)[0].lower() if name.upper().startswith(PREFIX) else None


def _environment() -> dict[str, Any]:
    names = [name for name in os.environ if name.startswith(PREFIX)]
    for name in names:
        section = name.removeprefix(PREFIX).split("__")[0].lower()
        if section not in Settings.model_fields:
            raise ConfigError(
                f"the environment variable {name} sets an unknown section {section!r}",
                mistakes.nearest(section, Settings.model_fields),
            )
    if not names:
        return {}
    from pydantic_settings import BaseSettings, EnvSettingsSource, SettingsConfigDict, SettingsError

    class OfEnvironment(BaseSettings, Settings):
        model_config = SettingsConfigDict(env_prefix=PREFIX, env_nested_delimiter="__", case_sensitive=False)

    class Environment(EnvSettingsSource):
        def decode_complex_value(self, field_name: str, field: Any, value: Any) -> Any:
            # Without a field, as in [outputs.NAME], nothing says that 12e4 is a number rather than a password.
            if field is None and not value.lstrip().startswith(("{", "[")):
                raise ValueError("this is text")
            return super().decode_complex_value(field_name, field, value)

    try:
        return Environment(OfEnvironment)()
    except SettingsError as error:
        raise ConfigError(
            f"the environment has a section that isn't a JSON object: {error}",
            f"set one setting at a time, as in {PREFIX}JOB__FACTOR=4",
        ) from error


def _merge(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for name, value in above.items():
        held = merged.get(name)
        merged[name] = _merge(held, value) if isinstance(held, dict) and isinstance(value, dict) else value
    return merged
