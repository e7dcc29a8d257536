"""Finds the classes of systems, and the systems' cures for errors. The classes of anabranch's own systems are found by
name. Other classes are named in the settings as ``module:Class``.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator

from anabranch import import_errors
from anabranch.config import OtherSystemSettings, Settings
from anabranch.errors import ConfigError
from anabranch.systems.contract import System

__all__ = ["SHIPPED", "class_of", "error_cures"]

SHIPPED = {
    "embedded": "anabranch.systems.embedded.system:EmbeddedSystem",
    "kafka": "anabranch.systems.kafka.system:KafkaSystem",
}
"""The systems that anabranch includes. Each has its own section in :class:`anabranch.config.SystemsSettings`."""

_loaded: dict[str, type[System]] = {}


def class_of(name: str, settings: Settings) -> type[System]:
    """The class of a system.

    Raises:
        ConfigError: there is no system of that name, or the system's class can't be imported or isn't a
            :class:`System`.
    """
    section = settings.systems.sections.get(name)
    if section is None:
        raise ConfigError(
            f"there is no system {name!r}; the systems are {', '.join(sorted(settings.systems.sections))}",
            f'name one of them, or add [systems.{name}] with class = "module:Class"',
        )
    return _class(name, section.class_ if isinstance(section, OtherSystemSettings) else SHIPPED[name])


def error_cures() -> Iterator[tuple[str, str]]:
    """The ``error_cures`` of anabranch's own systems, and of the other systems that this process has used."""
    for name, where in SHIPPED.items():
        yield from _class(name, where).error_cures
    for where, each in list(_loaded.items()):
        if where not in SHIPPED.values():
            yield from each.error_cures


def _class(name: str, where: str) -> type[System]:
    if where not in _loaded:
        module, _, kind = where.partition(":")
        cure = (
            "write module:Class; install the module wherever the job's processes run, the coordinator and Spark's "
            "executors too, or put its folder on PYTHONPATH there"
        )
        try:
            found = getattr(importlib.import_module(module), kind)
        except ConfigError:  # its own message says what is missing
            raise
        except (Exception, SystemExit) as error:  # a user's module may raise anything
            why = import_errors.reason(error)
            raise ConfigError(
                f"systems.{name} has the class {where!r}, which can't be imported: {why}", cure
            ) from error
        lacking = sorted(getattr(found, "__abstractmethods__", ()))
        if not isinstance(found, type) or System not in found.__mro__ or lacking:
            why = f"it lacks {', '.join(lacking)}" if lacking else "it doesn't inherit from it"
            raise ConfigError(
                f"systems.{name} has the class {where!r}, which is no anabranch.systems.contract.System: {why}",
                'see "Add a system" in the documentation',
            )
        _loaded[where] = found
    return _loaded[where]
