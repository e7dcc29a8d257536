"""Makes the relative paths in settings absolute."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from anabranch.config import sqlite_urls
from anabranch.config.outputs import OutputSettings
from anabranch.config.settings import Settings
from anabranch.config.storage import is_uri
from anabranch.config.systems import OtherSystemSettings, SystemSettings
from anabranch.errors import ConfigError

__all__ = ["absolute", "expanded"]

S = TypeVar("S", bound=BaseModel)
_PEM_FILES = ("certificate", "key", "client_ca", "ca", "client_certificate", "client_key")


def absolute(settings: Settings, folder: Path) -> Settings:
    """The settings with absolute paths; relative paths are resolved from ``folder``. Raises ConfigError if a path
    begins with ``~`` or ``~user``, and that home folder isn't known."""
    root, store = settings.storage.root, settings.coordinator.store
    if not is_uri(root):
        root = str((folder / expanded(root)).resolve())
    store = sqlite_urls.absolute(store, folder)
    file = sqlite_urls.path_of(store) or Path(".anabranch/coordinator")
    logs = settings.coordinator.logs or file.parent / "containers"
    token_file = settings.coordinator.token_file or file.with_name(f"{file.name}.token")
    return settings.model_copy(
        update={
            "storage": settings.storage.model_copy(update={"root": root}),
            "coordinator": _with_paths(settings.coordinator, folder, *_PEM_FILES).model_copy(
                update={
                    "store": store,
                    "logs": (folder / expanded(logs)).resolve(),
                    "token_file": folder.resolve() / expanded(token_file),
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


def expanded(path: Path | str) -> Path:
    """The path with a home folder in place of ``~`` or ``~user`` at its beginning. Raises ConfigError if the
    home folder isn't known."""
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise ConfigError(
            f"the path {str(path)!r} can't be used: the home folder of {Path(path).parts[0]} isn't known",
            "write the whole path; or ./~ if a folder's name begins with ~",
        ) from error


def _with_paths(section: S, folder: Path, *names: str) -> S:
    paths = {name: getattr(section, name) for name in names}
    given = {name: path for name, path in paths.items() if path is not None and "${" not in str(path)}
    return section.model_copy(update={name: (folder / expanded(path)).resolve() for name, path in given.items()})


def _with_table_path(output: OutputSettings, folder: Path) -> OutputSettings:
    return OutputSettings(**{**output.model_dump(), **_absolute(output.options, folder, "path")})


def _of_system(section: SystemSettings, folder: Path) -> SystemSettings:
    if not isinstance(section, OtherSystemSettings):
        return _with_paths(section, folder, *section.path_settings)
    return OtherSystemSettings(**{**section.model_dump(), **_absolute(section.options, folder, "path", "root")})


def _absolute(options: Mapping[str, Any], folder: Path, *names: str) -> dict[str, str]:
    """A dict with the options in ``names`` as absolute paths. URIs, and paths that contain references, are left out."""
    given = {name: path for name, path in options.items() if name in names and isinstance(path, str)}
    paths = {name: path for name, path in given.items() if not is_uri(path) and "${" not in path}
    return {name: str((folder / expanded(path)).resolve()) for name, path in paths.items()}
