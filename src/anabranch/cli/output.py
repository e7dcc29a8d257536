"""Prints the results of verbs for other programs."""

from __future__ import annotations

from typing import Any

import msgspec
import typer

from anabranch.model.document import Document

__all__ = ["as_json", "count"]


def as_json(told: Any) -> None:
    """Print a document, or a value of built-in types, as JSON on stdout."""
    plain = told.to_builtins() if isinstance(told, Document) else told
    typer.echo(msgspec.json.format(msgspec.json.encode(plain), indent=2).decode())


def count(number: int, word: str) -> str:
    """A number with a noun in the singular or the plural, such as "1,200 records"."""
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"
