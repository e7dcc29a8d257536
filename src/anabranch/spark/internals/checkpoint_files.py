"""Reads, lists, writes and renames checkpoint files that aren't on a local disk. A file can be created exclusively if
the file system supports this, and readers never see an incomplete file.

This module's Java class is ``CheckpointFiles.java``. Spark, too, uses this class to access checkpoint files that aren't
on a local disk.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from anabranch.spark.internals import java, java_functions
from anabranch.spark.internals.surface import JavaMembers, Surface

__all__ = ["MANAGER", "SURFACE", "FarFiles", "Listed", "lease", "prepare", "probe", "process_id"]

_NAME = "CheckpointFiles"
_CHECKPOINTING = "org.apache.spark.sql.execution.streaming.checkpointing"

MANAGER = f"anabranch.{_NAME}"
"""The name under which Spark's settings refer to the class."""

SURFACE = Surface(
    "checkpoint_files",
    "storage roots that are not on a local disk",
    [
        JavaMembers(
            f"{_CHECKPOINTING}.CheckpointFileManager", ("createAtomic", "createCheckpointDirectory", "isLocal")
        ),
        JavaMembers(f"{_CHECKPOINTING}.CheckpointFileManager$CancellableFSDataOutputStream", ("cancel",)),
        JavaMembers(f"{_CHECKPOINTING}.FileContextBasedCheckpointFileManager", ("createAtomic",)),
        JavaMembers("org.apache.hadoop.fs.BulkDelete", ("bulkDelete",)),
    ],
)
probe = SURFACE.probe


class Listed(NamedTuple):
    """A file in a listed folder.

    Attributes:
        name: the file's path within the folder. "" if the path that was listed is itself a file.
        size: in bytes.
        changed: when the file was written, in Unix seconds on the clock of the file system.
    """

    name: str
    size: int
    changed: float


def prepare(spark: SparkSession) -> None:
    """Compile ``CheckpointFiles.java``, so that Spark finds the class. If the storage root isn't on a local disk, call
    this function before the first query starts. :class:`FarFiles` calls this function itself.

    Raises:
        UnsupportedSparkError: this Spark lacks what the class needs.
        AnabranchError: the class can't be compiled.
    """
    SURFACE.insist(spark)
    java_functions.class_of(spark, _NAME)


def lease(spark: SparkSession, folder: str, seconds: float) -> None:
    """Let this JVM write below a folder only for the next ``seconds`` seconds; 0 forbids writing from now on. Each call
    replaces the folder's earlier limit. Before the first call for a folder, there is no limit.
    """
    java.java_class(spark, MANAGER).lease(folder, int(seconds * 1000))


def process_id(spark: SparkSession) -> int:
    """The process id of the JVM."""
    prepare(spark)
    return int(java.java_class(spark, MANAGER).processId())


class FarFiles:
    """The files of a Hadoop ``FileSystem``. All paths are Hadoop's ``Path`` objects."""

    def __init__(self, spark: SparkSession, fs: Any) -> None:
        prepare(spark)
        self._class = java.java_class(spark, MANAGER)
        self._fs = fs
        self.is_object_store = bool(self._class.isObjectStore(fs))
        """Whether the file system is S3. In S3, a file appears complete, under its final name, when it is closed. A
        file can't be renamed, only copied.
        """

    def create(self, path: Any, text: str) -> bool:
        """Create a file unless it exists, and return whether it was created. If several processes try to create a file
        at the same time, only one of them succeeds, provided that the file system can create files exclusively.
        """
        return bool(self._class.create(self._fs, path, text))

    def write(self, path: Any, text: str) -> None:
        """Write a file, replacing any existing file. Readers see the complete old file or the complete new one."""
        self._class.write(self._fs, path, text)

    def read(self, path: Any) -> str:
        """The text of a file."""
        return str(self._class.read(self._fs, path))

    def just_written(self, path: Any) -> str | None:
        """The text of a log entry, without a request to S3; None if the text isn't known.

        The text is known only if this JVM created the entry in S3, and has created no later entry in the same folder.
        Only the first call for an entry returns its text, because the entry could be rewritten before a second call.
        """
        text = self._class.justWritten(self._fs, path)
        return None if text is None else str(text)

    def check_lease(self, path: Any) -> None:
        """Raises Java's error if this process's lease of the file's folder has ended; see :func:`lease`."""
        self._class.checkLease(path)

    def delete(self, path: Any) -> None:
        """Delete a file, if it exists."""
        self._class.deleteFile(self._fs, path)

    def rename(self, path: Any, to: Any) -> None:
        """Rename a file, replacing any existing file."""
        self._class.rename(self._fs, path, to)

    def files(self, folder: Any, *, below: bool) -> list[Listed]:
        """The files in a folder and, with ``below``, in all folders below it. Empty if there is no such folder."""
        lines = str(self._class.files(self._fs, folder, below)).splitlines()
        parts = (line.rsplit("\t", 2) for line in lines)
        return [Listed(name, int(size), int(changed) / 1000) for name, size, changed in parts]
