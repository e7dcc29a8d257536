"""Passes the secrets from ``[spark.conf]`` to Spark by way of a file, because every user of the machine can read a
process's arguments.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from anabranch import own_files, scratch
from anabranch.config.secrets import has_reference, resolved
from anabranch.config.spark import names_secret

__all__ = ["in_file", "of"]

_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
_LAST = "pyspark-shell"
"""The name of the program that PySpark starts. This name must be the last of the arguments."""


def of(conf: Mapping[str, str]) -> dict[str, str]:
    """The settings in ``conf`` that may be secrets: settings whose values contain references, and settings whose names
    suggest a secret. In the result, references are resolved.

    Raises:
        ConfigError: a reference can't be resolved.
    """
    return {
        name: resolved(f"spark.conf.{name}", value)
        for name, value in conf.items()
        if has_reference(value) or names_secret(name)
    }


@contextmanager
def in_file(secrets: Mapping[str, str]) -> Iterator[None]:
    """A context in which a JVM that PySpark starts reads ``secrets`` from a file that only this user can read. Settings
    given to PySpark itself override the settings in the file.
    """
    if not secrets:
        yield
        return
    before = os.environ.get(_ARGUMENTS)
    file = scratch.folder("conf") / "spark.conf"
    own_files.make_file(file)
    file.write_text("".join(f"{_escaped(name)}={_escaped(value)}\n" for name, value in secrets.items()))
    words = [word for word in shlex.split(before or "") if word != _LAST]
    os.environ[_ARGUMENTS] = shlex.join(["--properties-file", str(file), "--load-spark-defaults", *words, _LAST])
    try:
        yield
    finally:
        file.unlink()
        if before is None:
            del os.environ[_ARGUMENTS]
        else:
            os.environ[_ARGUMENTS] = before


def _escaped(text: str) -> str:
    """A string, escaped for use as a key or value in a file of Java properties."""
    return "".join(each if each.isascii() and (each.isalnum() or each in "._-/") else _unit(each) for each in text)


def _unit(character: str) -> str:
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
