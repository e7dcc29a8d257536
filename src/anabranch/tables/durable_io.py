"""Gives pyiceberg access to files, and makes files on a local disk durable when they are closed. So a catalog never
names metadata that a crash of the machine could destroy.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.io import PY_IO_IMPL, WAREHOUSE, InputFile, OutputFile
from pyiceberg.io.pyarrow import PyArrowFileIO

from anabranch import own_files

__all__ = ["DurableFileIO", "used_by"]


class DurableFileIO(PyArrowFileIO):
    """Makes local files durable when they are closed. Leaves other files to pyiceberg."""

    def new_output(self, location: str) -> Any:
        scheme, _, path = self.parse_location(location, self.properties)
        made = super().new_output(location)
        return _LocalOutput(made, Path(path)) if scheme == "file" else made


def used_by(catalog: Catalog) -> Catalog:
    """Make a catalog use DurableFileIO if its warehouse is in a local folder, and the user hasn't chosen another class.
    Returns the catalog.
    """
    warehouse = str(catalog.properties.get(WAREHOUSE, ""))
    if warehouse.startswith(("/", "file:")):
        catalog.properties.setdefault(PY_IO_IMPL, f"{DurableFileIO.__module__}.{DurableFileIO.__qualname__}")
    return catalog


class _LocalOutput(OutputFile):
    def __init__(self, plain: OutputFile, path: Path) -> None:
        super().__init__(plain.location)
        self._plain = plain
        self._path = path

    def __len__(self) -> int:
        return len(self._plain)

    def exists(self) -> bool:
        return self._plain.exists()

    def to_input_file(self) -> InputFile:
        return self._plain.to_input_file()

    def create(self, overwrite: bool = False) -> Any:
        if not overwrite and self.exists():
            raise FileExistsError(f"there is a file {self.location} already")
        _make_folder(self._path.parent)
        return _DurableFile(str(self._path), "wb")


class _DurableFile(pa.OSFile):  # type: ignore[misc]
    """A file whose content and name become durable when it is closed."""

    def __init__(self, path: str, mode: str) -> None:
        super().__init__()
        self._path = Path(path)

    def close(self) -> None:
        was_open = not self.closed
        super().close()
        if was_open:
            own_files.sync(self._path)
            own_files.sync(self._path.parent)


def _make_folder(folder: Path) -> None:
    """Create a folder and its missing parents, and make their names durable."""
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    own_files.sync(folder.parent)
