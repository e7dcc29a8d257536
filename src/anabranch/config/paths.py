"""Makes the relative paths in settings absolute."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from anabranch.config.outputs import OutputSettings
from anabranch.config.settings import Settings
from anabranch.config.systems import OtherSystemSettings, SystemSettings

__all__ = ["absolute"]

S = TypeVar("S", bound=BaseModel)
_PEM_FILES = ("certificate", "key", "client_ca", "ca", "client_certificate", "client_key")


def absolute(settings: Settings, folder: Path) -> Settings:
    """The settings with absolute paths; relative paths are resolved from ``folder``."""
    root, store = settings.storage.root, settings.coordinator.store
    if "://" not in root and not root.startswith("file:"):
        root = str((folder / Path(root).expanduser()).resolve())
    if store.startswith("sqlite:///") and not store.startswith("sqlite:////"):
        store = f"sqlite:///{(folder / store.removeprefix('sqlite:///')).resolve()}"
    file = Path(store.removeprefix("sqlite:///") if store.startswith("sqlite:////") else ".anabranch/coordinator")
    logs = settings.coordinator.logs or file.parent / "containers"
    token_file = settings.coordinator.token_file or file.with_name(f"{file.name}.token")
    return settings.model_copy(
        update={
            "storage": settings.storage.model_copy(update={"root": root}),
            "coordinator": _with_paths(settings.coordinator, folder, *_PEM_FILES).model_copy(
                update={
                    "store": store,
                    "logs": (folder / logs.expanduser()).resolve(),
                    "token_file": folder.resolve() / token_file.expanduser(),
                }
            ),
            "systems": settings.systems.model_copy(
                update={name: _of_system(each, folder) for name, each in settings.systems.sections.items()}
            ),
            "formats": _with_paths(settings.formats, folder, "jars"),
            "streams": {name: _with_paths(each, folder, "schema_file") for name, each in settings.streams.items()},
            "outputs": {name: _with_table_path(each, folder) for name, each in settings.outputs.items()},
        }
    )


def _with_paths(section: S, folder: Path, *names: str) -> S:
    paths = {name: getattr(section, name) for name in names}
    given = {name: path for name, path in paths.items() if path is not None and "${" not in str(path)}
    return section.model_copy(update={name: (folder / path.expanduser()).resolve() for name, path in given.items()})


def _with_table_path(output: OutputSettings, folder: Path) -> OutputSettings:
    return OutputSettings(**{**output.model_dump(), **_absolute(output.options, folder, "path")})


def _of_system(section: SystemSettings, folder: Path) -> SystemSettings:
    if not isinstance(section, OtherSystemSettings):
        return _with_paths(section, folder, *section.path_settings)
    return OtherSystemSettings(**{**section.model_dump(), **_absolute(section.options, folder, "path", "root")})


def _absolute(options: Mapping[str, Any], folder: Path, *names: str) -> dict[str, str]:
    """The options that are relative paths, made absolute."""
    given = {name: path for name, path in options.items() if name in names and isinstance(path, str)}
    paths = {name: path for name, path in given.items() if "://" not in path and "${" not in path}
    return {name: str((folder / Path(path).expanduser()).resolve()) for name, path in paths.items()}
