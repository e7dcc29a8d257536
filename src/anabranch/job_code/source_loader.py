"""Loads a job's modules from their files, and keeps their source code so that other processes can import it, too."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

__all__ = ["SourceLoader", "read_texts", "text_of", "write_texts"]


class SourceLoader(SourceFileLoader):
    """Loads modules from files. Each file is read at most once, so that other processes can be given the same text. No
    compiled files are written next to a job's modules.
    """

    def __init__(self, name: str, path: str, sources: dict[str, bytes]) -> None:
        super().__init__(name, path)
        self._sources = sources

    def get_data(self, path: str) -> bytes:
        if path not in self._sources:
            self._sources[path] = super().get_data(path)
        return self._sources[path]

    def path_stats(self, path: str) -> Mapping[str, Any]:
        raise OSError  # makes Python ignore a compiled file, which may belong to another text


def text_of(path: Path) -> bytes:
    """The content of a file; empty if the file can't be read."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


def write_texts(file: Path, texts: Mapping[str, bytes]) -> None:
    """Write the paths and the texts of modules to a file for :func:`read_texts`."""
    file.write_text(json.dumps({path: text.hex() for path, text in sorted(texts.items())}))


def read_texts(file: Path) -> dict[str, bytes]:
    """The texts in a file that :func:`write_texts` has written."""
    texts: dict[str, str] = json.loads(file.read_text())
    return {path: bytes.fromhex(text) for path, text in texts.items()}
