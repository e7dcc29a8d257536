"""Each module leaves out, or does wrong, one step of the protocol: ``BREAKS`` names the invariants that may show it,
and ``FIRST``, where it is given, a seed from which on they soon do."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Protocol, cast

import pytest

NAMES = sorted(module.name for module in pkgutil.iter_modules(__path__))


class Mutant(Protocol):
    BREAKS: frozenset[str]

    def apply(self, patch: pytest.MonkeyPatch) -> None: ...


def load(name: str) -> Mutant:
    return cast(Mutant, importlib.import_module(f"{__name__}.{name}"))
