"""The jars with which anabranch was tested, in sets: ``connector``, ``broker`` and ``avro``."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from anabranch import cache_dir

__all__ = ["SETS", "Jar", "JarSet", "jar_set"]

_FILE = Path(__file__).with_name("pinned.txt")

SETS = {
    "connector": "Spark's connector to Kafka, which a job on Kafka needs",
    "broker": "a Kafka broker, for anabranch demo --kafka and for tests",
    "avro": "Spark's module for Avro",
}
"""The purpose of each set, by name."""


@dataclass(frozen=True)
class Jar:
    """A jar in a Maven repository."""

    sha256: str
    group: str
    artifact: str
    version: str

    @property
    def file(self) -> str:
        return f"{self.artifact}-{self.version}.jar"

    @property
    def path(self) -> str:
        """The jar's path in a Maven repository."""
        return f"{self.group.replace('.', '/')}/{self.artifact}/{self.version}/{self.file}"

    def is_in(self, folder: Path) -> bool:
        """Whether a folder has the jar, with the right checksum. Raises OSError if the jar can't be read."""
        try:
            with (folder / self.file).open("rb") as content:
                return hashlib.file_digest(content, "sha256").hexdigest() == self.sha256
        except FileNotFoundError:
            return False


@dataclass(frozen=True)
class JarSet:
    """Jars that are used together, in one folder."""

    name: str
    folder_name: str
    jars: tuple[Jar, ...]

    @property
    def folder(self) -> Path:
        """The set's folder in the cache, which exists only if the jars were fetched."""
        return cache_dir.folder() / self.folder_name

    @property
    def is_there(self) -> bool:
        """Whether the cache has all jars of the set, with the right checksums. Raises OSError if one of the jars can't
        be read.
        """
        return all(jar.is_in(self.folder) for jar in self.jars)


def jar_set(name: str) -> JarSet:
    """The set with this name, one of ``SETS``."""
    (folder_name,) = (folder for folder in _lines() if folder.rpartition("-")[0] == name)
    return JarSet(name, folder_name, _lines()[folder_name])


@cache
def _lines() -> dict[str, tuple[Jar, ...]]:
    folders: dict[str, tuple[Jar, ...]] = {}
    for line in _FILE.read_text().splitlines():
        if not line.startswith("#"):
            sha256, folder, coordinates = line.split()
            folders[folder] = (*folders.get(folder, ()), Jar(sha256, *coordinates.split(":")))
    return folders
