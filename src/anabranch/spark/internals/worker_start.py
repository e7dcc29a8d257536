"""Determines which interpreter and which daemons Spark uses to run Python on this machine. Spark's workers are forked
from these daemons.
"""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

from anabranch import scratch
from anabranch.spark.internals.surface import PythonName, Surface

__all__ = ["DAEMON", "DAEMON_MODULE", "SOURCES", "SURFACE", "interpreter", "probe"]

DAEMON_MODULE = "anabranch.spark.internals.worker_daemon"
DAEMON = {"spark.python.daemon.module": DAEMON_MODULE}
"""The setting that makes Spark fork the Python workers of Spark tasks from anabranch's daemon."""

_PLANNING = "anabranch.spark.internals.planning_daemon"
_SPARKS_DAEMON = "pyspark.daemon"
_RUNNER = "pyspark.sql.streaming.python_streaming_source_runner"
"""The module that Spark runs in a separate process for each Python source of a query."""

SURFACE = Surface(
    "worker_start",
    "starting Python workers",
    [
        PythonName(_SPARKS_DAEMON, "manager"),
        PythonName("pyspark.worker", "main"),
        PythonName("pyspark.sql.streaming.proto.StateMessage_pb2"),
    ],
    always=True,
)
probe = SURFACE.probe

SOURCES = Surface(
    "source_start",
    "starting Python daemons and the processes of Python sources from one process that has imported what they need",
    [PythonName(_RUNNER, "main")],
    otherwise="each of these processes imports everything itself",
)


def interpreter() -> str:
    """Write a script that Spark runs as Python on this machine, and return the script's path. If scripts in the
    temporary folder can't be run, return the path of this process's interpreter instead.

    The script runs this process's interpreter, with these differences:

    - Spark's zips aren't on the module path. By default, Spark puts a zip with PySpark's source code on this path,
      before the installed PySpark. Each process for a source or a function would compile this code again, which takes
      most of a second.
    - The working folder isn't on the module path (``-P``). Otherwise, a job file named ``json.py`` in that folder would
      replace Python's own module.
    - Daemons, and the processes of sources, are started with :mod:`fork_client`. No setting can replace Spark's own
      daemon, so :mod:`planning_daemon` is run in its stead. If PySpark lacks any part of the surface :data:`SOURCES`,
      Spark's own way is kept.
    """
    folder = scratch.folder("python")
    file = folder / "python"
    strip = "PYTHONPATH=${PYTHONPATH#*/pyspark.zip:}\nPYTHONPATH=${PYTHONPATH#*-src.zip:}\nexport PYTHONPATH\n"
    python, where = shlex.quote(sys.executable), shlex.quote(str(folder / "forks"))
    asks = f"exec {python} -IS {shlex.quote(str(Path(__file__).with_name('fork_client.py')))} {where}"
    ours = f"""case "$2" in
{_SPARKS_DAEMON}) {asks} -m {_PLANNING} "$3" {where};;
{DAEMON_MODULE}|{_RUNNER}) {asks} "$@";;
esac
"""
    if not SOURCES.is_in_pyspark:
        ours = ""
    file.write_text(f'#!/bin/sh\n{strip}{ours}exec {python} -P "$@"\n')
    file.chmod(0o700)
    return str(file) if os.access(file, os.X_OK) else sys.executable  # on some machines, files in /tmp can't be run
