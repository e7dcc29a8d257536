"""Judges from the text of an SQL expression which columns it may use. In doubt, an expression may use a column."""

from __future__ import annotations

import re

__all__ = ["has_star", "names"]

_COUNT = re.compile(r"\bcount\s*\(\s*\*\s*\)", re.IGNORECASE)
_QUOTED = re.compile(
    r"`(?:[^`]|``)*`|\br'[^']*'|\br\"[^\"]*\"|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", re.IGNORECASE | re.DOTALL
)
"""Names and texts in quotes."""
_WORD = re.compile(r"\w+")
_OPERAND = re.compile(r"[\w)\]']$")
"""The end of an operand, if what is quoted is ''."""
_KEYWORD = re.compile(
    r"\b(?:all|and|any|as|between|by|case|distinct|div|else|escape|filter|from|i?like|in|is|not|on|or|over|regexp|rlike|"
    r"select|some|then|when|where)$",
    re.IGNORECASE,
)
"""The words after which an operand begins, so that a star there isn't a multiplication."""


def names(expression: str, column: str) -> bool:
    """Whether an expression's text contains the column's name. (In Spark, case doesn't matter.) A name in a comment or
    in text counts, too.
    """
    text, name = expression.casefold(), column.casefold()
    words = _WORD.findall(text)
    if "identifier" in words:  # IDENTIFIER(…) puts a name together
        return True
    if name.isascii() and _WORD.fullmatch(name):
        return name in words
    return name.replace("`", "``") in text


def has_star(expression: str) -> bool:
    """Whether an expression may contain a star that stands for columns, such as ``*``, ``s.*`` or ``struct(*)``: a star
    that is no multiplication, and isn't in ``count(*)``.
    """
    text = _COUNT.sub("count(1)", _QUOTED.sub("''", expression))
    if "*" not in text:
        return False
    before = [text[: star.start()].rstrip() for star in re.finditer(r"\*", text)]
    return "--" in text or any(not _OPERAND.search(each) or bool(_KEYWORD.search(each)) for each in before)
