"""Finds, checks and replaces the archive of Spark's classes that ``anabranch doctor --fix`` makes on this machine.

If a JVM has such an archive, it doesn't need to find Spark's classes in 280 jars, parse them and verify them. Loading
the classes then takes a fraction of the time. Java calls this feature *class data sharing*.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from anabranch import cache_dir
from anabranch.deadlines import run_within
from anabranch.errors import AnabranchError, ConfigError
from anabranch.spark.session.java_program import Java, option

__all__ = ["ENDS_WITHIN", "MAKE", "USE", "is_accepted", "making", "options", "path"]

USE = "-XX:SharedArchiveFile="
MAKE = "-XX:ArchiveClassesAtExit="

ENDS_WITHIN = 120.0
"""Seconds after which a JVM, started only to try an archive, counts as hanging. Usually, one or two are enough."""
_FILE = "classes.jsa"
_OF = "jars.txt"
"""The name of a file next to each archive. The file contains the path of the folder with the jars for which the archive
was made, and the :func:`_state` of these jars.
"""
_MADE_WITHIN = 3600.0
"""Seconds after which an unfinished archive is certainly left over from a process that was killed."""
_VARIABLES = ("SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")
_OTHER = ("SharedArchiveFile", "ArchiveClassesAtExit", "-Xshare:")


def path(java: Java) -> Path:
    """The path of the archive for ``java`` and the jars of this environment, whether or not the archive exists.

    A JVM accepts an archive only if the same build of Java made it, and if the jars' paths, sizes and modification
    times are the same as when the archive was made. Otherwise, the JVM silently uses no archive at all, not even the
    JDK's own.
    """
    key = hashlib.sha256((java.build + _state(_jars())).encode()).hexdigest()[:12]
    return _folder() / key / _FILE


def options(java: Java) -> str:
    """Java's options for a JVM that uses the archive. The result is empty in three cases: there is no archive, the
    archive's folder can't be determined or read, or an environment variable already gives Java options about class
    data sharing.
    """
    given = " ".join(os.environ.get(name, "") for name in _VARIABLES)
    if any(each in given for each in _OTHER):
        return ""
    try:
        archive = path(java)
        return f"{option(f'{USE}{archive}')} -Xlog:cds*=off" if archive.is_file() else ""
    except (OSError, ConfigError):  # no home folder, or an unreadable cache: jobs only start more slowly
        return ""


def is_accepted(java: Java) -> bool:
    """Whether a JVM with Spark's class path accepts the archive. If there is no archive, the result is False.

    Raises:
        AnabranchError: the JVM doesn't end in time.
    """
    given = dict.fromkeys(_VARIABLES, "") | {"SPARK_SUBMIT_OPTS": f"{option(f'{USE}{path(java)}')} -Xshare:on"}
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    late = AnabranchError(
        f"whether Java accepts {path(java)} can't be checked: {submit} --version doesn't end within {ENDS_WITHIN:g} s",
        "try again when this machine has less to do; jobs also run without the archive",
    )
    return not run_within([str(submit), "--version"], ENDS_WITHIN, lambda: late, env={**os.environ, **given})


@contextmanager
def making(java: Java) -> Iterator[Path]:
    """A context manager that provides a path. A JVM must write the archive to this path before the context ends. If the
    context ends without an error, the written file becomes the archive. Older archives are then removed if their jars
    have changed, because no JVM accepts such archives.
    """
    archive = path(java)
    archive.parent.mkdir(parents=True, exist_ok=True)
    for left in archive.parent.glob("*.part"):
        if left.stat().st_mtime < time.time() - _MADE_WITHIN:
            left.unlink(missing_ok=True)
    part = archive.with_name(f"{uuid.uuid4().hex}.part")
    try:
        yield part
        (archive.parent / _OF).write_bytes(os.fsencode(f"{_jars()}\n{_state(_jars())}"))
        part.replace(archive)
        _forget()
    finally:
        part.unlink(missing_ok=True)


def _forget() -> None:
    for of in _folder().glob(f"*/{_OF}"):
        jars, _, state = os.fsdecode(of.read_bytes()).partition("\n")
        if _state(Path(jars)) != state:
            shutil.rmtree(of.parent, ignore_errors=True)


def _state(jars: Path) -> str:
    """A hash of the paths, sizes and modification times of the jars in a folder."""
    found = [(str(each), (its := each.stat()).st_size, its.st_mtime_ns) for each in sorted(jars.glob("*.jar"))]
    return hashlib.sha256(repr(found).encode()).hexdigest()


def _folder() -> Path:
    return cache_dir.folder() / "classes"


def _jars() -> Path:
    return Path(pyspark.__file__).parent / "jars"
