"""Determines how each operator affects the columns of the stage key. State belongs to a value of the stage key."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from anabranch.model.graph import Node


@dataclass(frozen=True)
class KeyColumns:
    """The columns that contain the stage key. If no columns do, ``lost`` says which operator lost the key, and how."""

    columns: tuple[str, ...] = ()
    lost: str = ""


Effect = Callable[[Node, KeyColumns], KeyColumns]

_TOKENS = re.compile(
    r"""
      --(?:\\\n|[^\r\n])*  # a comment up to the end of the line, or further, if the line ends in a backslash
    | /\*(?:/\*.*?\*/|.)*?\*/  # a comment, perhaps with another one in it
    | `(?:[^`]|``)*` | '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" | [<>(),]
    | (?:(?!--|/\*)[^`'"<>(),])+
    """,
    re.VERBOSE | re.DOTALL,
)
"""Divides a declaration into the same parts as Spark's parser does. Text that belongs to no part, such as a quote
without an end, is an error in Spark."""


def field_names(declaration: str | None) -> tuple[str, ...]:
    """The field names of a declaration such as ``"tailnum string, `leg no` decimal(3, 0)"``, in order."""
    names: list[str] = []
    depth, begins = 0, True
    for token in _TOKENS.findall(declaration or ""):
        if token.startswith(("--", "/*")):
            continue
        depth += (token in "<(") - (token in ">)")
        if token == "," and not depth:
            begins = True
        elif begins and token.strip():
            quoted = token.startswith("`")
            names.append(token[1:-1].replace("``", "`") if quoted else re.split(r"[\s:]", token.strip())[0])
            begins = False
    return tuple(names)


def kept(_node: Node, key: KeyColumns) -> KeyColumns:
    """The key columns after an operator that doesn't change them."""
    return key


def declared(node: Node, _key: KeyColumns) -> KeyColumns:
    """The key columns after a ``read``: the fields into which ``key=`` decodes the message key."""
    columns = field_names(node.args.get("key"))
    return KeyColumns(columns, "" if columns else f"read {node.name!r} ({node.where}) declares no key=")


def partitioned(node: Node, _key: KeyColumns) -> KeyColumns:
    """The key columns after a ``partition_by``: the columns that it names."""
    return KeyColumns(tuple(node.args["columns"]))


def selected(node: Node, key: KeyColumns) -> KeyColumns:
    """The key columns after a ``select``. The key is lost unless each key column is selected unchanged, by its name or
    by ``*``.
    """
    taken = {expression.strip().strip("`") for expression in node.args["expressions"]}
    gone = [column for column in key.columns if column not in taken and "*" not in taken]
    return _without(node, key, gone)


def not_replaced(node: Node, key: KeyColumns) -> KeyColumns:
    """The key columns after ``with_columns``. The key is lost if a key column is replaced."""
    replaced = {name.lower() for name in node.args["columns"]}  # as Spark compares names
    return _without(node, key, [column for column in key.columns if column.lower() in replaced])


def resulting(node: Node, key: KeyColumns) -> KeyColumns:
    """The key columns after an operator that calls a function. The key is lost if the function's declared result lacks
    a key column.
    """
    if "schema" not in node.args:
        return key
    result = field_names(node.args["schema"])
    return _without(node, key, [column for column in key.columns if column not in result])


def _without(node: Node, key: KeyColumns, gone: list[str]) -> KeyColumns:
    if not gone:
        return key
    return KeyColumns((), f"{node.kind} ({node.where}) drops or replaces the key column {gone[0]!r}")
