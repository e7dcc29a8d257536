"""A function for ``foreach_batch`` that keeps each batch once, as docs/how-to/write-your-own-table.md says: a batch's
rows and its number are one transaction, in a SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from anabranch import crash_points

FOLDER = Path.cwd() / "tables"  # a container runs a copy of the job, in the same folder
_FORM = {"ignoreNullFields": "false", "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'"}


def into(output: str) -> Callable[[DataFrame, str, int, int], None]:
    """A function that saves to ``tables/OUTPUT.db``."""

    def save(df: DataFrame, lane: str, batch: int, epoch: int) -> None:
        rows = [(text,) for (text,) in df.select(F.to_json(F.struct("*"), _FORM)).collect()]
        crash_points.reach(crash_points.STAGED, lane, batch)
        with closing(sqlite3.connect(FOLDER / f"{output}.db", timeout=60, isolation_level=None)) as connection:
            connection.execute("begin immediate")
            connection.execute("create table if not exists rows (value text)")
            connection.execute("create table if not exists marks (lane text primary key, epoch int, batch int)")
            held = connection.execute("select epoch, batch from marks where lane = ?", [lane]).fetchone() or (0, -1)
            if held[0] > epoch:
                raise RuntimeError(f"epoch {held[0]} has lane {lane}, this is {epoch}")
            if held[1] < batch:
                connection.executemany("insert into rows values (?)", rows)
            connection.execute("replace into marks values (?, ?, ?)", [lane, epoch, max(batch, held[1])])
            connection.execute("commit")
        crash_points.reach(crash_points.NAMED, lane, batch)

    return save
