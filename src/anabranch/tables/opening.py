"""Creates the table objects of outputs from their settings, ``[outputs.NAME]``."""

from __future__ import annotations

import difflib
import importlib
from typing import Any, cast

from anabranch import import_errors
from anabranch.config import OutputSettings
from anabranch.errors import ConfigError
from anabranch.tables.contract import Table

__all__ = ["KINDS", "is_foreign", "opened"]

KINDS = {
    "parquet": "anabranch.tables.parquet:ParquetFolder",
    "delta": "anabranch.tables.delta:DeltaFolder",
    "iceberg": "anabranch.tables.iceberg:IcebergTable",
    "postgresql": "anabranch.tables.postgresql:PostgresqlTable",
}


def is_foreign(settings: OutputSettings) -> bool:
    """Whether an output's table has a class that the user has written. (The coordinator doesn't import such
    classes.)"""
    return ":" in settings.to


def opened(name: str, settings: OutputSettings) -> Table:
    """The table of an output.

    Raises:
        ConfigError: the kind of table is unknown, a setting is missing or isn't allowed, or the table's class can't be
            imported.
    """
    if not is_foreign(settings) and settings.to not in KINDS:
        near = difflib.get_close_matches(settings.to.lower(), KINDS, n=1)
        raise ConfigError(
            f"outputs.{name} goes to {settings.to!r}, which is unknown"
            + (f"; did you mean {near[0]!r}?" if near else ""),
            f"set to = one of {', '.join(KINDS)}, or a class of yours as module:Class",
        )
    where = KINDS.get(settings.to, settings.to)
    module, _, kind = where.partition(":")
    try:
        made: Any = getattr(importlib.import_module(module), kind)
    except ConfigError:  # its own message says what is missing
        raise
    except (Exception, SystemExit) as error:  # a user's module may raise anything
        raise ConfigError(
            f"outputs.{name} goes to {settings.to!r}, which can't be imported: {import_errors.reason(error)}",
            "write module:Class; the module lies beside the job",
        ) from error
    return cast(Table, made(name, settings.options))
