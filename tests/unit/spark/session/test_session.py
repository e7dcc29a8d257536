"""What Spark is told for a container."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from anabranch.config import Settings, SparkSettings, StorageSettings
from anabranch.spark.internals import context_stop, worker_start
from anabranch.spark.session import session
from tests.support.surfaces import lacking


@pytest.mark.parametrize(
    ("root", "manager"),
    [
        ("/data/lanes", "FileSystemBasedCheckpointFileManager"),
        ("file:///data/lanes", "FileSystemBasedCheckpointFileManager"),
        ("hdfs://name:8020/lanes", "CheckpointFiles"),
        ("s3a://bucket/lanes", "CheckpointFiles"),
    ],
)
def test_checkpoints_are_renamed_by_the_cheap_way_only_where_a_lock_keeps_others_out(root: str, manager: str) -> None:
    (name,) = session.SPARKS_OWN
    found = session.conf(Settings(storage=StorageSettings(root=root)))
    assert found[name].rpartition(".")[2] == manager
    local = manager == "FileSystemBasedCheckpointFileManager"
    assert ("spark.sql.streaming.stateStore.maintenanceInterval" in found) == local
    assert session.S3_SETTINGS.keys().isdisjoint(found) == (not root.startswith("s3a:"))


def test_the_users_settings_win() -> None:
    given = {"spark.speculation": "true", **session.SPARKS_OWN}
    found = session.conf(Settings(spark=SparkSettings(conf=given)))
    assert {name: found[name] for name in given} == given


def test_workers_on_this_machine_take_the_pyspark_that_is_installed() -> None:
    python = worker_start.interpreter()
    lib = "/opt/spark/python/lib"
    path = [f"{lib}/pyspark.zip", f"{lib}/py4j-0.10.9.9-src.zip", "/opt/spark/jars/core.jar", "/home/job"]
    for given in (path, path[2:]):
        words = [
            python,
            "-c",
            "import os, sys; print(os.environ['PYTHONPATH'], sys.prefix, sys.argv[1])",
            "an argument",
        ]
        env = {**os.environ, "PYTHONPATH": ":".join(given)}
        printed = subprocess.run(words, env=env, capture_output=True, text=True, check=True).stdout
        assert printed == f"{':'.join(path[2:])} {sys.prefix} an argument\n"


def test_what_spark_asks_of_sources_is_answered_by_our_daemon() -> None:
    words = [worker_start.interpreter(), "-m", "pyspark.daemon", "pyspark.sql.worker.plan_data_source_read"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as daemon:
        assert daemon.stdin is not None
        assert daemon.stdout is not None
        assert int.from_bytes(daemon.stdout.read(4), "big") > 0, "it tells the port where it takes orders"
        named = subprocess.run(["ps", "-wwo", "args=", "-p", str(daemon.pid)], capture_output=True, text=True).stdout
        daemon.stdin.close()
    assert named.split()[1:5] == ["-P", "-m", "anabranch.spark.internals.planning_daemon", words[-1]]


def test_what_our_first_daemon_has_imported_the_others_needn_t() -> None:
    python, pipe = worker_start.interpreter(), subprocess.PIPE
    planning = [python, "-m", "pyspark.daemon", "pyspark.sql.worker.plan_data_source_read"]
    ours = [python, "-m", worker_start.DAEMON_MODULE, "pyspark.worker"]
    with subprocess.Popen(planning, stdin=pipe, stdout=pipe) as first:
        assert first.stdout is not None
        first.stdout.read(4)
        for words in (planning, ours):
            with subprocess.Popen(words, stdin=pipe, stdout=pipe) as daemon:
                assert daemon.stdout is not None
                assert int.from_bytes(daemon.stdout.read(4), "big") > 0, "it tells the port where it takes orders"
                named = (Path("/proc") / str(daemon.pid) / "cmdline").read_text()
                assert daemon.stdin is not None
                daemon.stdin.close()
            assert "fork_client" in named
        assert first.stdin is not None
        first.stdin.close()


def test_a_pyspark_with_another_way_to_start_sources_starts_them_by_itself() -> None:
    with lacking(worker_start.SOURCES):
        python = worker_start.interpreter()
    script = Path(python).read_text()
    assert "fork_client" not in script
    assert "planning_daemon" not in script
    printed = subprocess.run([python, "-c", "print(6 * 7)"], capture_output=True, text=True, check=True).stdout
    assert printed == "42\n"


class Context:
    """``stopped``: what was called, in order. The server says when it has ended, which takes a second."""

    def __init__(self, **parts: object) -> None:
        self.stopped: list[str] = []
        self.sparkContext = SimpleNamespace(**parts)

    def stop(self) -> None:
        server = getattr(self.sparkContext, SERVER, None)
        if server is not None:
            server.shutdown()
        self.stopped.append("spark")


SERVER = context_stop.SERVER


def test_a_session_is_stopped_without_waiting_for_its_server() -> None:
    ended = threading.Event()
    spark: Any = Context(**{SERVER: SimpleNamespace(shutdown=lambda: ended.wait(30))})
    begun = time.monotonic()
    session.stop(spark)
    assert spark.stopped == ["spark"]
    assert time.monotonic() - begun < 20
    ended.set()


def test_a_pyspark_with_another_server_is_stopped_as_it_stops_itself() -> None:
    spark: Any = Context()
    assert not context_stop.SURFACE.works(spark)
    session.stop(spark)
    assert spark.stopped == ["spark"]
