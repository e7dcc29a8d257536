"""Starts and stops Spark sessions with the settings that anabranch needs, and determines how functions are sent to
Python workers.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlsplit

import pyspark
from pyspark import cloudpickle
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from anabranch import scratch
from anabranch.config import Settings
from anabranch.errors import AnabranchError, ConfigError, UnsupportedSparkError
from anabranch.formats import modules
from anabranch.job_code import environment, job_modules, user_files
from anabranch.spark.internals import (
    checkpoint_files,
    context_stop,
    debug_lines,
    java,
    java_functions,
    probes,
    worker_start,
)
from anabranch.spark.internals.surface import Probe
from anabranch.spark.session import class_archive, cluster, confidential, java_program, registered_sources
from anabranch.spark.session.printed import last_lines
from anabranch.systems.contract import SessionNeeds
from anabranch.systems.systems import Systems

_STATE = "spark.sql.streaming.stateStore"
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.speculation": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.adaptive.streaming.stateless.enabled": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.sql.streaming.noDataMicroBatches.enabled": "true",
    "spark.sql.streaming.join.stateFormatVersion": "3",  # one store per state partition, as for other operators
    f"{_STATE}.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    f"{_STATE}.rocksdb.changelogCheckpointing.enabled": "true",
    **worker_start.DAEMON,
}

_MOST_PRINTED = 64 * 1024**2
"""If the file with the output of earlier sessions has more than this number of bytes, the file is renamed before a
session starts.
"""
_LOCAL, _S3 = ("", "file"), "s3a"
"""The schemes of storage roots on a local disk, and the scheme of storage roots on S3."""

_LISTS = ("spark.jars", "spark.jars.packages")

HERE = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.authenticate": "true",
}
"""Settings for a driver to which only processes on this machine connect."""

_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
_CHECKPOINTING = "org.apache.spark.sql.execution.streaming.checkpointing"
LOCAL_SETTINGS = {
    _MANAGER: f"{_CHECKPOINTING}.FileSystemBasedCheckpointFileManager",
    f"{_STATE}.maintenanceInterval": "20s",
}
"""Settings for a storage root on a local disk. A successor replays all changes since the last snapshot of state. So
these settings make Spark take snapshots of state more often than by default.

With these settings, Spark also examines files without starting processes. By default, Spark starts a process for each
examined file: about 60 processes in a batch of a stateful lane. If a checkpoint has two writers, these processes ensure
that only one of the writers succeeds. anabranch uses the lock of the lane's folder for this purpose instead.
"""

FAR_SETTINGS = {_MANAGER: checkpoint_files.MANAGER}
"""Settings for a storage root that isn't on a local disk: see ``CheckpointFiles.java``."""

S3_SETTINGS = {
    "spark.hadoop.fs.s3a.input.stream.type": "classic",
    "spark.hadoop.fs.s3a.performance.flags": "mkdir,delete",
}
"""Settings for a storage root on S3. Spark's default type of input stream isn't used, because it relies on the length
that a file had when the file was last read. The flags avoid requests that only maintain folders, because S3 has no
folders.
"""

SPARKS_OWN = {_MANAGER: f"{_CHECKPOINTING}.FileContextBasedCheckpointFileManager"}
"""Spark's own way to write checkpoints on a local disk."""

_COMPILER = (
    "-XX:Tier4InvocationThreshold=20000 -XX:Tier4MinInvocationThreshold=2400 "
    "-XX:Tier4CompileThreshold=60000 -XX:Tier4BackEdgeThreshold=160000"
)
"""Options that make Java's optimizing compiler wait for four times as many calls as by default before it compiles a
method. The start of a job calls thousands of methods a few thousand times each, and never again. In a short run, which
takes 80 seconds of processor time, optimizing these methods would take 13 seconds. A method that runs for every record
reaches the higher number of calls within a second.
"""

_CLASS_PATH = "spark.driver.extraClassPath"
_INCUBATOR = "jdk.incubator.vector"
"""A Java module that Spark's launcher requires, and that some Java installations lack."""

# PySpark prints each analysis error as a page of JSON, even if anabranch explains or expects the error.
_SAID_BY_US = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


def master_of(master: str | None, cores: int = 0) -> str:
    """Spark's master: the configured master or, if no master is configured, a local one. The local master retries Spark
    tasks. It has as many cores as this machine, but at least 2, and at least ``cores``.

    Args:
        master: the configured master, if any.
        cores: how many Spark tasks must be able to run at the same time; 0 for any number. With fewer cores, a lane in
            real-time mode would never read some of its partitions. If ``cores`` isn't 0, the ``*`` in a configured
            ``local[*]`` is replaced by the number of this machine's cores, because Spark itself might count fewer.

    Raises:
        ConfigError: a local master with fewer than ``cores`` cores is configured.
    """
    counted = (master or "").replace("local[*", f"local[{os.cpu_count() or 1}") if cores else master or ""
    held = re.match(r"local(?:\[(\d+))?(?!.*cluster)", counted)
    if held is not None and int(held[1] or 1) < cores:
        raise ConfigError(
            f'[spark] master = "{master}" has too few task slots: {cores} tasks of this job in real time run at once',
            f'set master = "local[{cores},4]", or leave it out',
        )
    return counted or f"local[{max(2, os.cpu_count() or 2, cores)},4]"


def conf(settings: Settings) -> dict[str, str]:
    """Spark's settings, without the settings for systems and formats. The settings that anabranch itself needs are
    overridden by the configured settings.
    """
    scheme = urlsplit(settings.storage.root).scheme
    storage = LOCAL_SETTINGS if scheme in _LOCAL else FAR_SETTINGS | (S3_SETTINGS if scheme == _S3 else {})
    here = {} if cluster.is_cluster(master_of(settings.spark.master)) else HERE
    return {**SETTINGS, **debug_lines.settings(), **storage, **here, **settings.spark.conf}


def start(settings: Settings, home: str = "", output: Path | None = None, cores: int = 0) -> SparkSession:
    """Start the session.

    Args:
        home: the job's folder, from which Python workers can import modules.
        output: a file for the output of the JVM and the Python workers; by default, this process's stderr.
        cores: see :func:`master_of`.

    Raises:
        AnabranchError: Java is missing, is too old, or ends unexpectedly; the packages of a system or a format can't
            be fetched; or the cluster doesn't accept the application.
        ConfigError: ``[spark] master`` has too few cores or isn't valid; a reference in ``[spark.conf]`` can't be
            resolved; or there is no interpreter for Python workers.
        UsageError: the job's folder can't be packed for a cluster.
        UnsupportedSparkError: this Spark lacks something that every job needs.
    """
    installed = java_program.resolve()
    master = master_of(settings.spark.master, cores)
    needs = _needs(settings)
    settled = _joined({**needs.conf, **modules.conf(settings, needs.conf)}, conf(settings))
    on_cluster = cluster.is_cluster(master)
    if on_cluster:
        cluster.check_master(master)
        os.environ["PYSPARK_DRIVER_PYTHON"], os.environ["PYSPARK_PYTHON"] = sys.executable, cluster.python(settled)
        settled |= cluster.shipped(settled, home)
    else:
        os.environ["PYSPARK_DRIVER_PYTHON"] = os.environ["PYSPARK_PYTHON"] = worker_start.interpreter()
        os.environ[job_modules.SHELF] = job_modules.shelf()
        if home:
            os.environ[job_modules.VARIABLE] = job_modules.code_in(home).on_this_machine().dumped()
    builder = SparkSession.builder.appName("anabranch").master(master)
    builder = builder.config("spark.driver.memory", settings.spark.memory)
    quiet = f"-Dlog4j2.configurationFile={(Path(__file__).parent / 'log4j2.properties').as_uri()}"
    temporary = scratch.folder("spark")
    # Java silently rejects an archive that was made with another class path, and then uses no archive at all.
    archive = "" if _CLASS_PATH in settled else class_archive.options(installed)
    kept = java_program.option(f"-Djava.io.tmpdir={temporary}")
    options = f"{_COMPILER} {quiet} {kept} {archive}".rstrip()
    builder = builder.config("spark.driver.extraJavaOptions", options)
    if not on_cluster:
        builder = builder.config("spark.local.dir", str(temporary))
    secrets = confidential.of(settled)
    for name, value in settled.items():
        if name not in secrets:
            builder = builder.config(name, value)
    for name in _SAID_BY_US:
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
    with _printing_to(output) as printed, confidential.in_file(secrets):
        spark = opened(builder, master, settled.get("spark.jars.packages", ""), needs.cure, printed)
    try:
        probes.insist(spark)
    except UnsupportedSparkError:
        stop(spark)
        raise
    if urlsplit(settings.storage.root).scheme not in _LOCAL:
        checkpoint_files.prepare(spark)
    java.keep_pysparks_classes(spark)
    registered_sources.register(spark, Systems(settings))
    java_functions.prepare(spark)
    return spark


def _joined(needed: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """The settings of a session. ``given`` overrides ``needed``, but lists of jars and of packages are merged."""
    lists = {name: f"{needed[name]},{given[name]}" for name in _LISTS if needed.get(name) and given.get(name)}
    return {**needed, **given, **lists}


def stop(spark: SparkSession) -> None:
    """Stop Spark."""
    context_stop.stop(spark)


def opened(
    builder: SparkSession.Builder, master: str, packages: str = "", cure: str = "", printed: BinaryIO | None = None
) -> SparkSession:
    """Have PySpark start the session. With a local master, errors that aren't described below are raised unchanged.

    Args:
        packages: the Maven packages that Spark fetches, as the error should name them.
        cure: another way to get the packages, which the error suggests.
        printed: Java's output, the end of which is added to the error. None if Java's output goes to this process's
            stderr.

    Raises:
        AnabranchError: the packages can't be fetched, Java ends unexpectedly, or the cluster doesn't accept the
            application.
    """
    try:
        return builder.getOrCreate()
    except Exception as error:
        said = "see Spark's output" if printed is None else last_lines(printed)
        if packages and "JAVA_GATEWAY_EXITED" in str(error):
            raise AnabranchError(
                f"Spark hasn't started with {packages}, which it gets from a Maven repository: {said}",
                f"if the repository doesn't have them: {cure}" if cure else "name others in [formats]",
            ) from error
        if "JAVA_GATEWAY_EXITED" in str(error):
            raise _java_ended(said) from error
        if not cluster.is_cluster(master):
            raise
        lines = str(error).strip().splitlines()
        why = next((line.removeprefix(": ") for line in lines if line.startswith(": ")), lines[0])
        raise AnabranchError(
            f"{master} hasn't accepted the application: {why}",
            f"check that it is a master of Spark {pyspark.__version__}; see also Spark's output, and [spark] conf",
        ) from error


def _java_ended(said: str) -> AnabranchError:
    """The error for a session whose JVM, on this machine, ended before Spark had started. If the JVM lacks a module
    that Spark needs, the error says so. ``said`` is the end of the JVM's output, or says where to find that output.
    """
    path = java_program.resolve().path
    code, tried = java_program.run(path, f"--add-modules={_INCUBATOR}", "-version")
    if _INCUBATOR in tried and code:
        return AnabranchError(
            f"{path} lacks the module {_INCUBATOR}, without which Spark doesn't start",
            "it is an incomplete Java, such as jlink makes: set JAVA_HOME to a complete Java 17 or 21",
        )
    return AnabranchError(
        f"Java ended before Spark had started: {said}",
        f"see that {path} starts with the options in JAVA_TOOL_OPTIONS and JDK_JAVA_OPTIONS, if they are set, and that "
        "this machine has the memory of [spark] memory",
    )


def for_schemas(settings: Settings, home: str) -> SparkSession:
    """Start a small session on this machine, even if containers run their sessions on a cluster. The output of the
    session's JVM and Python workers isn't shown. If the session doesn't start, the error contains the end of that
    output.
    """
    conf = {name: value for name, value in settings.spark.conf.items() if name not in cluster.OF_THE_PLACE}
    small = settings.spark.model_copy(update={"master": "local[1]", "conf": conf})
    return start(settings.model_copy(update={"spark": small}), home, scratch.folder("printed") / "spark.log")


def _needs(settings: Settings) -> SessionNeeds:
    """What a session must provide for the systems to which streams are bound, and for the default system."""
    conf: dict[str, str] = {}
    cures = []
    for system in Systems(settings).used:
        needs = system.session_needs()
        for name, value in needs.conf.items():
            conf[name] = f"{conf[name]},{value}" if name in conf and name in _LISTS else value
        cures += [needs.cure] if needs.cure else []
    return SessionNeeds(conf, cure="; ".join(cures))


def probed(settings: Settings) -> list[Probe]:
    """Start a small session, and try all of Spark's private surfaces.

    Raises:
        AnabranchError: as for :func:`start`.
    """
    spark = for_schemas(settings, "")
    try:
        return probes.look(spark)
    finally:
        stop(spark)


def carry(functions: Mapping[int, Any]) -> None:
    """Make PySpark send certain functions to Python workers as code rather than by name. These are the job's functions,
    and all functions of loaded modules in the same folders, because the job's functions may use UDFs of these modules.
    Functions of Python's own modules, of installed packages and of anabranch are always sent by name, because workers
    have these modules.

    The functions of a test module, and of modules in the same folder, must be sent as code, because workers can't
    import these modules. If anabranch has started the session on this machine, workers can import the job file. In that
    case, the job file's functions aren't sent as code.

    Args:
        functions: the job's functions, by node.
    """
    imported = job_modules.SHELF in os.environ
    given = [each for node, each in functions.items() if not imported or job_modules.code_of(node, each) is None]
    for folder in {Path(file).parent for function in given for file in user_files.files(function)}:
        _pickle_by_value(folder)


def follow_environment(spark: SparkSession) -> None:
    """From now on, if this process changes its environment variables, pass the changes to Python workers on this
    machine. This is for tests and notebooks. Workers of a cluster keep their own environment.
    """
    environment.follow(not cluster.is_under(spark))


@contextmanager
def _printing_to(output: Path | None) -> Iterator[BinaryIO | None]:
    """A context for starting processes that write to the file ``output``, even after the context has ended. The context
    provides a file from which the processes' new output can be read. If ``output`` is None, the processes write to
    this process's stdout and stderr.
    """
    if output is None:
        yield None
        return
    kept = {number: os.dup(number) for number in (1, 2)}
    try:
        if output.exists() and output.stat().st_size > _MOST_PRINTED:
            output.replace(output.with_name(f"{output.name}.1"))
        with output.open("ab") as file, output.open("rb") as printed:
            printed.seek(0, os.SEEK_END)
            for number in kept:
                os.dup2(file.fileno(), number)
            yield printed
    finally:
        for number, descriptor in kept.items():
            os.dup2(descriptor, number)
            os.close(descriptor)


def _pickle_by_value(folder: Path) -> None:
    """Make PySpark send functions of all loaded modules in a folder to Python workers as code rather than by name."""
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if file and Path(file).parent == folder and module.__name__ != "__main__":
            cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
