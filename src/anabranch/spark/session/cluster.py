"""Prepares a container's session on a cluster: checks that a standalone master can be reached, determines the
interpreter for Python workers, and makes Spark send anabranch and the job's code to the executors.
"""

from __future__ import annotations

import re
import shutil
import socket
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession

from anabranch import logs, scratch
from anabranch.config.addresses import host_and_port
from anabranch.errors import AnabranchError, ConfigError, UsageError
from anabranch.job_code import artifact, job_modules, packed_modules

log = logs.get_logger()

__all__ = ["OF_THE_PLACE", "check_master", "is_cluster", "is_under", "python", "shipped"]

ANSWERS_WITHIN = 10.0
"""Seconds within which a cluster's master must accept a connection."""

OF_THE_PLACE = ("spark.driver.host", "spark.driver.bindAddress", "spark.archives", "spark.pyspark.python")
"""Settings that are valid only on the machine on which a container runs."""

_ARCHIVES, _PATH, _PYTHON = "spark.archives", "spark.executorEnv.PYTHONPATH", "spark.pyspark.python"
_CODE = f"spark.executorEnv.{job_modules.VARIABLE}"
_JOB, _PACKAGE = "anabranch-job", "anabranch-package"
"""The folders in an executor's working folder into which Spark unpacks the archives. Python workers run in this working
folder.
"""


def is_cluster(master: str) -> bool:
    """Whether a master runs Spark tasks outside the driver's process, possibly on other machines."""
    return re.fullmatch(r"local(\[.*\])?", master) is None


def is_under(spark: SparkSession) -> bool:
    """Whether a session runs on a cluster."""
    return is_cluster(str(spark.sparkContext.master))


def check_master(master: str) -> None:
    """Check that a standalone master (``spark://``) accepts connections. (Spark itself would try for a minute, and its
    error would hardly explain the cause.) Other masters aren't checked.

    Raises:
        ConfigError: the addresses after ``spark://`` don't have the form ``HOST:PORT``, separated by commas.
        AnabranchError: none of the addresses accepts a connection within 10 seconds.
    """
    if not master.startswith("spark://"):
        return
    try:
        places = [host_and_port(place) for place in master.removeprefix("spark://").split(",")]
    except ValueError as error:
        raise ConfigError(f'[spark] master = "{master}": {error}', "write spark://HOST:7077") from None
    end, why = time.monotonic() + ANSWERS_WITHIN, ""
    for left, place in zip(range(len(places), 0, -1), places, strict=True):
        try:
            socket.create_connection(place, max(0.1, end - time.monotonic()) / left).close()
        except OSError as error:
            why = str(error)
        else:
            return
    raise AnabranchError(
        f"no Spark master answers at {master}: {why}",
        "start it, or name another: [spark] master, --master; it is the URL at the top of the master's web page",
    )


def python(conf: Mapping[str, str]) -> str:
    """The path of the interpreter for Python workers: ``spark.pyspark.python`` in ``conf`` or, by default, the path of
    the interpreter that runs this process. The interpreter must be at this path on every machine.

    Raises:
        ConfigError: there is no interpreter at this path on this machine. Spark also needs the interpreter on this
            machine, to plan batches.
    """
    found = conf.get(_PYTHON, sys.executable)
    if shutil.which(found) is None:
        raise ConfigError(
            f'[spark] conf: {_PYTHON} = "{found}" is not on this machine, where Spark plans batches with it',
            f"start the container where this path leads to it; the working folder is {Path.cwd()}",
        )
    return found


def shipped(conf: Mapping[str, str], home: str) -> dict[str, str]:
    """Settings that make Spark send this installation of anabranch and the job's folder ``home`` to executors. If
    ``home`` is '', no folder is sent. Archives that ``conf`` already names are sent as well.

    anabranch and the job's folder are packed into archives in a temporary folder. This folder exists until this
    process ends, because executors that start later must also be able to fetch the archives.

    Raises:
        AnabranchError: the job's folder can't be packed; see :func:`anabranch.job_code.artifact.pack`.
    """
    package = Path(__file__).parents[2]
    contents: dict[str, bytes] = {}
    if home:
        code = artifact.pack(Path(home))
        try:
            packed_modules.check(Path(home), code)
        except UsageError as error:  # the job may run without the module
            log.warning("executors don't get all of the job's code", why=error.what)
        contents[_JOB] = code.content
    contents[_PACKAGE] = artifact.packed_package(package)
    folder = scratch.folder("shipped")
    for name, content in contents.items():
        (folder / f"{name}.zip").write_bytes(content)
    archives = ",".join([*(f"{folder}/{name}.zip#{name}" for name in contents), *filter(None, [conf.get(_ARCHIVES)])])
    given = {_ARCHIVES: archives, _PATH: ":".join([_PACKAGE, *filter(None, [conf.get(_PATH)])])}
    return given | ({_CODE: replace(job_modules.code_in(home), home=_JOB).dumped()} if home else {})
