"""Removes Spark's own archives from the module search path of Python workers.

Spark puts three archives in front of this path: PySpark, py4j, and the jar of its own core. They make workers slow:

- In each new worker, Spark lets Python read the directories of all archives on the path again. This takes about 0.1 s
  of a core, because the jar has 6,000 entries.
- PySpark's archive contains source code only, so each process that imports from this archive compiles it again.
"""

from __future__ import annotations

import os
import re
import sys
from importlib.machinery import PathFinder

__all__ = ["drop_archives"]

_JAR = re.compile(r"spark-core_.*\.jar")
_PYSPARK, _PY4J = "pyspark.zip", re.compile(r"py4j-.*\.zip")


def drop_archives() -> None:
    """Remove Spark's archives from this process's module search path, unless they are needed. Processes that this
    process starts don't get them, either.

    The archives with PySpark and py4j are needed if the PySpark package that they belong to can't be imported without
    them. (Another version of PySpark may be installed, too.) An archive from which modules have been imported also
    stays. Archives of the user's are left alone.
    """
    rest = [path for path in sys.path if not _is_sparks(path)]
    files = [file for module in [*sys.modules.values()] if isinstance(file := getattr(module, "__file__", None), str)]
    installed = _has(rest, "py4j")
    needless = {
        path
        for path in sys.path
        if _is_sparks(path)
        and (_JAR.fullmatch(os.path.basename(path)) or (installed and _has(rest, "pyspark", _package(path))))
        and not any(file.startswith(path + os.sep) for file in files)
    }
    sys.path[:] = [path for path in sys.path if path not in needless]
    if "PYTHONPATH" in os.environ:
        given = os.environ["PYTHONPATH"].split(os.pathsep)
        os.environ["PYTHONPATH"] = os.pathsep.join(path for path in given if path not in needless)
    for cached in [*sys.path_importer_cache]:
        if any(cached == path or cached.startswith(path + os.sep) for path in needless):
            del sys.path_importer_cache[cached]


def _is_sparks(path: str) -> bool:
    name = os.path.basename(path)
    return name == _PYSPARK or any(pattern.fullmatch(name) for pattern in (_JAR, _PY4J))


def _package(archive: str) -> str:
    """The folder of the PySpark package that an archive belongs to: archives are in its ``python/lib``."""
    return os.path.dirname(os.path.dirname(os.path.dirname(archive)))


def _has(paths: list[str], module: str, folder: str | None = None) -> bool:
    """Whether a module would be found on ``paths`` (in this folder, if one is given)."""
    spec = PathFinder.find_spec(module, paths)
    return spec is not None and (folder is None or spec.origin == os.path.join(folder, "__init__.py"))
