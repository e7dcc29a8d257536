"""Determines which columns an SQL expression might use, based on its text. In case of doubt, the expression counts as
using the column.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from anabranch.spark.values import codec

__all__ = ["has_star", "names", "without_hidden"]

_COUNT = re.compile(r"\bcount\s*\(\s*\*\s*\)", re.IGNORECASE)
_QUOTED = re.compile(
    r"`(?:[^`]|``)*`|\br'[^']*'|\br\"[^\"]*\"|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", re.IGNORECASE | re.DOTALL
)
"""Names and texts in quotes."""
_WORD = re.compile(r"\w+")
_OPERAND = re.compile(r"[\w)\]']$")
"""Matches the end of an operand in an expression whose quoted parts were replaced by ''."""
_KEYWORD = re.compile(
    r"\b(?:all|and|any|as|between|by|case|distinct|div|else|escape|filter|from|i?like|in|is|not|on|or|over|regexp|rlike|"
    r"select|some|then|when|where)$",
    re.IGNORECASE,
)
"""The words after which an operand begins. A star right after such a word isn't a multiplication sign."""


def names(expression: str, column: str) -> bool:
    """Whether an expression might use a column. This is so if its text contains the column's name, even in a comment or
    in quotes, or the word IDENTIFIER. (As in Spark, case doesn't matter.)
    """
    text, name = expression.casefold(), column.casefold()
    words = _WORD.findall(text)
    if "identifier" in words:  # IDENTIFIER(…) can assemble any name
        return True
    if name.isascii() and _WORD.fullmatch(name):
        return name in words
    return name.replace("`", "``") in text


def has_star(expression: str) -> bool:
    """Whether an expression might contain a star that stands for columns, such as ``*``, ``s.*`` or ``struct(*)``: a
    star that isn't a multiplication sign, and isn't in ``count(*)``.
    """
    text = _COUNT.sub("count(1)", _QUOTED.sub("''", expression))
    if "*" not in text:
        return False
    before = [text[: star.start()].rstrip() for star in re.finditer(r"\*", text)]
    return "--" in text or any(not _OPERAND.search(each) or bool(_KEYWORD.search(each)) for each in before)


_ARGUMENT = re.compile(
    r"(?P<before>[(,]|\bdistinct\b)(?P<space>\s*)\*(?P<rest>\s*except\s*\(|(?=\s*[,)]))", re.IGNORECASE
)
"""A star among the arguments of a function, at a place where a star can't be a multiplication."""
_COUNTED = re.compile(r"\bcount\s*$", re.IGNORECASE)


def without_hidden(expression: str, visible: Sequence[str], hidden: str) -> str:
    """The expression, changed so that stars among a function's arguments don't stand for the hidden column:
    ``struct(*)`` becomes ``struct(a, b)``, and ``struct(* except (a))`` excepts the hidden column, too.

    ``count(*)`` and stars outside of a function's arguments stay as they are, and so do all stars of an expression with
    comments.

    Args:
        visible: the names of the columns, except for the hidden one.
        hidden: the name of the hidden column.
    """
    if "*" not in expression or "--" in expression or "/*" in expression:
        return expression
    columns = ", ".join(map(codec.quoted, visible))

    def replaced(found: re.Match[str]) -> str:
        before, rest = found["before"], found["rest"]
        if before == "(" and not rest and _COUNTED.search(found.string[: found.start()]):
            return found[0]
        stands_for = f"*{rest}{codec.quoted(hidden)}, " if rest else columns
        return f"{before}{found['space']}{stands_for}"

    parts, at = [], 0
    for quoted in _QUOTED.finditer(expression):
        parts += [_ARGUMENT.sub(replaced, expression[at : quoted.start()]), quoted[0]]
        at = quoted.end()
    return "".join([*parts, _ARGUMENT.sub(replaced, expression[at:])])
