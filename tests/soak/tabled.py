"""The job ``delays`` with its outputs in tables, or in functions: what it must have come to is read by DuckDB, Polars,
psycopg and sqlite3."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from tests.acceptance.harness import EXAMPLE, LATE, TABLE, Workspace
from tests.jobs import JOBS
from tests.support import postgres
from tests.support.iceberg import iceberg_catalog, iceberg_rows

PATIENCE = 600.0
FUNCTIONS = JOBS / "functions"
_KEYS = {LATE: "tailnum", TABLE: "dest"}


class TabledWorkspace(Workspace):
    """``kind`` as in ``[outputs.NAME] to``, and settings of the table of each output. Tables are in the folder
    ``tables``, or in a ``server``.
    """

    def __init__(
        self,
        folder: Path,
        kind: str,
        options: Mapping[str, Mapping[str, object]],
        job: Path = EXAMPLE,
        server: postgres.Server | None = None,
    ) -> None:
        bound = {f"outputs__{output}__to": kind for output in options}
        bound |= {f"outputs__{output}__{name}": v for output, each in options.items() for name, v in each.items()}
        super().__init__(folder, None, job, patience=PATIENCE, **bound)
        self.kind = kind
        self.options = options
        self.server = server
        self.tables = folder / "tables"
        self.tables.mkdir(exist_ok=True)

    def contents(self, stream: str) -> Iterator[tuple[bytes | None, Any]]:
        """Rows as the values of records would be; late flights in the order of their numbers, for a table has none."""
        key = _KEYS[stream]
        rows = self.rows(stream)
        if stream == LATE:
            rows.sort(key=lambda row: int(row["origin"].removeprefix("EWR-")))
        for row in rows:
            value = {name: _shown(each) for name, each in row.items() if each is not None}
            yield None if row[key] is None else row[key].encode(), value

    def rows(self, output: str) -> list[dict[str, Any]]:
        """All rows of a table."""
        return _READERS[self.kind](self.options[output])

    def running(self, job: Path, output: str) -> TabledWorkspace:
        """One in the same folder for another job, which has one output, in the table of late flights."""
        return TabledWorkspace(self.folder, self.kind, {output: self.options[LATE]}, job)


class FunctionWorkspace(TabledWorkspace):
    """Functions that save what they get, of jobs that are otherwise those elsewhere."""

    def __init__(self, folder: Path, job: Path = EXAMPLE) -> None:
        super().__init__(folder, "function", {}, FUNCTIONS / job.name)
        shutil.copy(FUNCTIONS / "saving.py", folder)

    def rows(self, output: str) -> list[dict[str, Any]]:
        with closing(sqlite3.connect(self.tables / f"{output}.db")) as connection:
            return [json.loads(value) for (value,) in connection.execute("select value from rows")]

    def running(self, job: Path, output: str) -> TabledWorkspace:
        return FunctionWorkspace(self.folder, job)


def _of_parquet(options: Mapping[str, object]) -> list[dict[str, Any]]:
    path = Path(str(options["path"]))
    if not list(path.glob("*.parquet")):
        return []
    with duckdb.connect() as connection:
        found = connection.sql(f"select * from '{path}/*.parquet'").to_arrow_table()
    return found.to_pylist()  # type: ignore[no-any-return]


def _of_delta(options: Mapping[str, object]) -> list[dict[str, Any]]:
    return pl.read_delta(str(options["path"])).to_dicts()


def _of_postgresql(options: Mapping[str, object]) -> list[dict[str, Any]]:
    url = str(options["url"]).replace("${env:TABLES_PASSWORD}", postgres.PASSWORD)
    with psycopg.connect(url, options="-c timezone=UTC", row_factory=dict_row) as connection:
        query = sql.SQL("select * from {}").format(sql.Identifier(str(options["table"])))
        return connection.execute(query).fetchall()


def _of_iceberg(options: Mapping[str, object]) -> list[dict[str, Any]]:
    catalog = {name.removeprefix(_OF_CATALOG): each for name, each in options.items() if name.startswith(_OF_CATALOG)}
    return iceberg_rows({"table": options["table"], "catalog": catalog}).to_dicts()


_OF_CATALOG = "catalog__"
_READERS = {"parquet": _of_parquet, "delta": _of_delta, "iceberg": _of_iceberg, "postgresql": _of_postgresql}
"""By tools that know nothing of anabranch."""


def _in_delta(folder: Path, stack: ExitStack) -> TabledWorkspace:
    return TabledWorkspace(folder, "delta", {each: {"path": str(folder / "tables" / each)} for each in _KEYS})


def _in_postgresql(folder: Path, stack: ExitStack) -> TabledWorkspace:
    server = stack.enter_context(postgres.serving())
    url = server.new_database().replace(postgres.PASSWORD, "${env:TABLES_PASSWORD}")
    os.environ["TABLES_PASSWORD"] = postgres.PASSWORD
    return TabledWorkspace(folder, "postgresql", {each: {"url": url, "table": each} for each in _KEYS}, server=server)


def _in_parquet(folder: Path, stack: ExitStack) -> TabledWorkspace:
    return TabledWorkspace(folder, "parquet", {each: {"path": str(folder / "tables" / each)} for each in _KEYS})


def _in_iceberg(folder: Path, stack: ExitStack) -> TabledWorkspace:
    catalog = {f"{_OF_CATALOG}{name}": value for name, value in iceberg_catalog(folder / "tables").items()}
    return TabledWorkspace(folder, "iceberg", {each: {"table": f"shop.{each}", **catalog} for each in _KEYS})


KINDS: dict[str, Callable[[Path, ExitStack], TabledWorkspace]] = {
    "parquet": _in_parquet,
    "delta": _in_delta,
    "iceberg": _in_iceberg,
    "postgresql": _in_postgresql,
    "function": lambda folder, stack: FunctionWorkspace(folder),
}


def _shown(value: Any) -> Any:
    return value.strftime("%Y-%m-%dT%H:%M:%S.%fZ") if isinstance(value, datetime) else value
