"""Waits for the executors of a Spark cluster, and checks that they have what lanes need: Python, its packages, and
shared folders.
"""

from __future__ import annotations

import os
import re
import socket
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from anabranch import own_files
from anabranch.config import Settings
from anabranch.config.storage import local_folder
from anabranch.container import error_text
from anabranch.errors import AnabranchError, ConfigError
from anabranch.model.graph import Graph
from anabranch.operators import rule
from anabranch.spark.internals import executors
from anabranch.spark.session import cluster
from anabranch.systems.systems import Systems

__all__ = ["CALL_AFTER", "POLL", "SAY_AFTER", "ready"]

POLL = 0.2
SAY_AFTER, _SAY_EVERY = 15.0, 60.0
CALL_AFTER, _CALL_EVERY = 30.0, 2.0
SLOTS_WITHIN = 60.0
"""The seconds within which Spark must have enough task slots. They are counted from the start of the first executor."""

_PYTHON_SAID = re.compile(r"(?:Error from python worker:.*?(?=\w+Error: )|java\.io\.IOException: )([^\n)]+)", re.DOTALL)


@dataclass(frozen=True)
class _Folder:
    """A folder that this process and all executors must share. During the check, it contains the file ``probe``."""

    what: str
    probe: Path
    cure: str


def ready(
    spark: SparkSession,
    settings: Settings,
    graph: Graph,
    cores: int,
    say: Callable[[str], None],
    unless: Callable[[], bool] = lambda: False,
    waits: Callable[[], object] = lambda: None,
) -> None:
    """Wait for executors, and check them. The wait for the first executor has no time limit. Without a cluster, nothing
    happens.

    Args:
        cores: how many Spark tasks must be able to run at the same time (0 for any number).
        say: called with a message if the cluster provides no executor for some time.
        unless: returns whether to stop waiting and skip the check.
        waits: called every few seconds once the cluster has provided no executor for ``CALL_AFTER`` seconds.

    Raises:
        ConfigError: Spark still has fewer than ``cores`` task slots ``SLOTS_WITHIN`` seconds after the first executor
            has started.
        AnabranchError: the executors can't run anabranch's Python code, or a folder isn't shared with them.
    """
    if not cluster.is_under(spark):
        return
    slots = wait_for_slots(spark, cores, say, unless, waits)
    if slots:
        _check(spark, settings, graph, slots)


def wait_for_slots(
    spark: SparkSession,
    cores: int,
    say: Callable[[str], None],
    unless: Callable[[], bool],
    waits: Callable[[], object] = lambda: None,
) -> int:
    """Wait until Spark has at least ``cores`` task slots. If ``cores`` is 0, wait for at least one task slot. Returns
    the number of task slots, or 0 if ``unless`` has ended the wait. Raises ConfigError if there are still too few task
    slots ``SLOTS_WITHIN`` seconds after the first task slot has appeared."""
    master = spark.sparkContext.master
    begun = time.monotonic()
    next_word, first = begun + SAY_AFTER, 0.0
    next_call = begun + CALL_AFTER
    while not unless():
        slots, now = task_slots(spark), time.monotonic()
        if slots >= max(1, cores):
            return slots
        if slots:
            first = first or now
            if now > first + SLOTS_WITHIN:
                raise ConfigError(
                    f"{master} has given {slots} task slots in {SLOTS_WITHIN:.0f} s, but {cores} tasks of this job in "
                    "real time must run at once",
                    "give the application or the cluster more cores (spark.cores.max, spark.executor.instances)",
                )
        elif now > next_call:
            waits()
            next_call = now + _CALL_EVERY
        if not slots and now > next_word:
            say(f"{master} has given no executor in {now - begun:.0f} s: are its cores and memory taken? Waiting ...")
            next_word = now + _SAY_EVERY
        time.sleep(POLL)
    return 0


def task_slots(spark: SparkSession) -> int:
    """How many Spark tasks can run at the same time on the current executors."""
    context = spark.sparkContext
    return executors.cores(spark) // int(context.getConf().get("spark.task.cpus", "1"))


def _check(spark: SparkSession, settings: Settings, graph: Graph, slots: int) -> None:
    """Check, with two Spark tasks per task slot, that executors can run anabranch's Python code, and can write to the
    shared folders."""
    with ExitStack() as probing:
        shared = [probing.enter_context(_probed(*each)) for each in _shared(settings, graph)]
        look = partial(_look, [str(each.probe) for each in shared])
        try:
            rows = spark.range(0, slots * 2, 1, slots * 2).mapInArrow(look, "host string, missing int").collect()
        except Exception as error:
            raise AnabranchError(
                f"executors of {spark.sparkContext.master} can't run Python functions: {why_no_python(error)}",
                f"{os.environ['PYSPARK_PYTHON']} must be there on every machine, with the packages that anabranch and "
                'the job need: see "Run on a Spark cluster" in the documentation',
            ) from error
    if rows:
        folder = shared[rows[0]["missing"]]
        raise AnabranchError(
            f"the {folder.what} {folder.probe.parent} of this machine is not that of the executor on {rows[0]['host']}",
            folder.cure,
        )


def why_no_python(error: Exception) -> str:
    """Why executors can't run Python functions. If Python couldn't be started, the result is Spark's message about the
    failed start. Otherwise, the result is the root cause of ``error``."""
    found = _PYTHON_SAID.search(str(error))
    return found[1] if found is not None else error_text.failure(error).what


def _shared(settings: Settings, graph: Graph) -> Iterator[tuple[str, Path, str]]:
    root = local_folder(settings.storage.root)
    if root is not None and any(rule(node).stateful for node in graph.nodes):
        cure = "executors keep state there: let [storage] root be on HDFS, S3 …, or in a folder that all machines share"
        yield "storage root", root, cure
    for system in Systems(settings).used:
        for folder in system.folders():
            yield folder.label, folder.path, folder.cure


@contextmanager
def _probed(what: str, folder: Path, cure: str) -> Iterator[_Folder]:
    own_files.make_folder(folder)
    probe = folder / f".anabranch-shared-{uuid.uuid4().hex}"
    probe.touch()
    try:
        yield _Folder(what, probe, cure)
    finally:
        probe.unlink()


def _look(probes: Sequence[str], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Runs on an executor: yields a batch with a row for each probe to which the executor can't write."""
    import anabranch.spark.query.sink  # noqa: F401

    for _ in batches:
        pass
    missing = [number for number, probe in enumerate(probes) if not os.access(probe, os.W_OK)]
    yield pa.RecordBatch.from_pydict(
        {
            "host": pa.array([socket.gethostname()] * len(missing), pa.string()),
            "missing": pa.array(missing, pa.int32()),
        }
    )
