"""A Spark that lacks one of the private surfaces that anabranch uses, or has it, whatever the real one has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from anabranch.spark.internals.surface import Probe, PythonName, Surface

_GONE = PythonName("pyspark.renamed")
WHY = "PySpark has no module pyspark.renamed"
"""What a probe says of a surface that is taken away."""


@contextmanager
def lacking(surface: Surface) -> Iterator[None]:
    """Inside ``with``, the Spark that runs lacks a surface, as its probe finds out."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(surface, "needs", (_GONE,))
        surface.forget()
        yield
    surface.forget()


def pretend(monkeypatch: pytest.MonkeyPatch, surface: Surface, missing: str = "") -> None:
    """Let a surface be there, or be ``missing``, where no Spark runs."""
    found = Probe(surface, "4.3.0", missing)
    monkeypatch.setattr(surface, "look", lambda _: found)
    monkeypatch.setattr(surface, "probe", lambda _: found)
