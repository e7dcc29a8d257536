"""Handles the key of upserts into a PostgreSQL table: whether the table has an index for the key, and which rows of a
batch have the same key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import psycopg
from psycopg import sql

from anabranch.errors import ConflictError
from anabranch.tables.postgresql_columns import Column

__all__ = ["apart", "check", "compared"]

_BY_KEY = """
    indrelid = to_regclass(%s) and indisunique and indisvalid and indpred is null and indexprs is null
    and %s::text[] = (
        select array_agg(attname::text order by attname::text collate "C")
        from pg_attribute where attrelid = indrelid and attnum = any(indkey[0:indnkeyatts - 1])
    )
"""
"""Selects a table's unique indexes on exactly the columns of a key. The parameters are the table's name as written in
SQL, and the columns in alphabetical order.
"""
_NULLS_CAN_BE_EQUAL = 150_000
"""The first version of PostgreSQL that has unique indexes with ``nulls not distinct``."""


def check(connection: psycopg.Connection[Any], table: str, key: Sequence[str], output: str, shown: str) -> None:
    """Check that a table is suitable for ``on conflict``. The table must have a unique index on exactly the key's
    columns, and no such index may be deferrable. Columns in ``include (b)`` don't count.

    Args:
        table: the table's name as written in SQL.
        output: the output's name, for error messages.
        shown: the table's name in error messages.

    Raises:
        ConflictError: the table isn't suitable.
    """
    query = f"select indimmediate from pg_index where {_BY_KEY}"
    suitable = [immediate for (immediate,) in connection.execute(query, [table, sorted({*key})])]
    columns = ", ".join(key)
    if not suitable:
        raise ConflictError(
            f"{shown} has no unique index on ({columns}), by which outputs.{output} upserts",
            f"make one: create unique index on {table} ({columns})",
        )
    if not all(suitable):
        raise ConflictError(
            f"{shown} has a deferrable constraint on ({columns}), by which outputs.{output} can't upsert",
            "make the constraint not deferrable",
        )


def compared(
    connection: psycopg.Connection[Any], table: str, staged: Mapping[str, sql.Identifier], held: Mapping[str, Column]
) -> list[sql.Composable]:
    """SQL expressions for the columns of a key in the staging table. If the table treats two keys as the same key, the
    expressions have equal values for both keys. (The keys can still differ, because the table's types and collations
    may ignore case, or spaces at the end.) ``staged`` maps the names of the key's columns to the columns of the staging
    table. ``table`` is the table's name as written in SQL.
    """
    query = f"""
        select attname, nspname, collname from pg_index
        cross join unnest(indkey::int2[], indcollation::oid[]) as part (number, compares)
        join pg_attribute on attrelid = indrelid and attnum = number
        join pg_collation on pg_collation.oid = compares
        join pg_namespace on pg_namespace.oid = collnamespace
        where not collisdeterministic and {_BY_KEY}
    """
    found = connection.execute(query, [table, sorted(staged)]).fetchall()
    collations = {name: sql.SQL(" collate {}").format(sql.Identifier(*collation)) for name, *collation in found}
    values = {name: _converted(each, held[name].type) for name, each in staged.items()}
    return [sql.SQL("({}){}").format(value, collations.get(name, sql.SQL(""))) for name, value in values.items()]


def apart(
    connection: psycopg.Connection[Any], table: str, staged: Mapping[str, sql.Identifier], row: Sequence[str]
) -> list[sql.Composable]:
    """SQL expressions that keep rows of the staging table apart if their keys contain a null. For a table, such keys
    differ from all others, unless its index has ``nulls not distinct``. In the latter case, there are no expressions.

    Args:
        table: the table's name as written in SQL.
        staged: the columns of the key in the staging table, by their names in the table.
        row: the columns that identify a row of the staging table.
    """
    if connection.info.server_version >= _NULLS_CAN_BE_EQUAL:
        query = f"select 1 from pg_index where indnullsnotdistinct and {_BY_KEY}"
        if connection.execute(query, [table, sorted(staged)]).fetchall():
            return []
    null = sql.SQL(" or ").join(sql.SQL("{} is null").format(column) for column in staged.values())
    return [sql.SQL("case when {} then {} end").format(null, sql.Identifier(column)) for column in row]


def _converted(staged: sql.Identifier, kind: str) -> sql.Composable:
    """An SQL expression that converts the column ``staged`` to the form in which a column of the type ``kind`` contains
    its values. Text that is too long for this type isn't shortened, so that PostgreSQL refuses it.
    """
    bare, _, length = kind.partition("(")
    if bare == "uuid":
        return sql.SQL("{}::uuid").format(staged)
    if bare == "character":
        return sql.SQL("{}::bpchar").format(staged)
    if bare == "character varying" and length:  # PostgreSQL cuts off spaces that are too many
        text = "case when length(rtrim({0}, ' ')) <= {1} then left({0}, {1}) else {0} end"
        return sql.SQL(text).format(staged, sql.Literal(int(length.rstrip(")"))))
    return staged
