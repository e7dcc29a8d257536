"""Lanes' folders on S3 and HDFS, as the docs say how: two processes that take the same lane, and one that is frozen."""

from __future__ import annotations

import json
import random
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.harness import JOB, Workspace, flights
from tests.soak import stores
from tests.support import hadoop, s3, tutorial
from tests.support.paths import ROOT

pytestmark = pytest.mark.acceptance

COUNT = 2500
FILES = ROOT / "src" / "anabranch" / "spark" / "internals" / "CheckpointFiles.java"
EXCLUSIVE_FILES = ROOT / "tests" / "support" / "ExclusiveFiles.java"
PLAIN = """from anabranch import Job

job = Job("plain")
job.read("flights", key="tailnum string", schema="origin string").where("origin > ''").write("plain")
"""
CALLS = 8
"""The most that a batch without state makes on S3, from when old entries are removed on."""


def as_documented(folder: Path, stack: ExitStack) -> Workspace:
    """A workspace on an S3 server, with the settings of the how-to but for where jars and the server are."""
    server = stack.enter_context(s3.serving(folder))
    told = tutorial.settings(ROOT / "docs" / "how-to" / "checkpoint-to-s3.md")
    conf = {**told["spark"]["conf"], "spark.driver.extraClassPath": ":".join(s3.jars())}
    del conf["spark.jars.packages"]
    conf["spark.hadoop.fs.s3a.endpoint"] = f"http://127.0.0.1:{server.port}"
    workspace = Workspace(folder, storage__root=told["storage"]["root"], spark__conf=json.dumps(conf), **stores.ROWS)
    workspace.environment |= server.keys
    workspace.lanes = server.root / JOB
    stack.callback(workspace.close)
    return workspace


@pytest.mark.long
def test_of_two_processes_that_take_a_lane_on_s3_one_is_refused(tmp_path: Path) -> None:
    with ExitStack() as stack:
        workspace = as_documented(tmp_path, stack)
        several = flights(1, COUNT)
        workspace.put(several)
        stores.raced(random.Random(1), workspace)
        workspace.check_outputs(several)


def exclusive_files(folder: Path, conflicts: int, count: int) -> list[str]:
    """What comes of creating files on S3, each twice, if the store refuses one of so many writes for a conflict."""
    with s3.serving(folder) as server, s3.Proxy(server.port, conflicts=conflicts) as proxy:
        begin = "spark.hadoop."
        conf = [(name, value) for name, value in server.conf(proxy.port).items() if name.startswith(begin)]
        words = [word for name, value in conf for word in (name.removeprefix(begin), value)]
        command = ["java", "-cp", ":".join([f"{hadoop.JARS}/*", *s3.jars()]), str(EXCLUSIVE_FILES), str(FILES)]
        command += [f"s3a://{s3.BUCKET}/root/claims-1", str(count), *words]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert proxy.refused >= count // conflicts
    return done.stdout.splitlines()


@pytest.mark.long
def test_a_write_that_s3_refuses_because_of_another_request_is_tried_again(tmp_path: Path) -> None:
    assert exclusive_files(tmp_path, conflicts=3, count=6) == ["true first", "false first"] * 6


@pytest.mark.long
def test_a_write_that_s3_refuses_all_the_time_says_why(tmp_path: Path) -> None:
    (first, second) = exclusive_files(tmp_path, conflicts=1, count=1)
    assert first == second
    assert "claims-1/0 doesn't exist, but the store has refused to create it 7 times (If-None-Match)" in first


@pytest.mark.long
def test_a_batch_without_state_makes_few_calls_on_s3(tmp_path: Path) -> None:
    with ExitStack() as stack:
        server = stack.enter_context(s3.serving(tmp_path))
        job = tmp_path / "job" / "plain.py"
        job.parent.mkdir()
        job.write_text(PLAIN)
        conf = json.dumps({**server.conf(), "spark.sql.streaming.minBatchesToRetain": "5"})
        settings = {**server.settings(), "spark__conf": conf, "job__max_rows_per_batch": 100}
        workspace = Workspace(tmp_path, job=job, **settings)
        stack.callback(workspace.close)
        calls = []
        for seed, batches in enumerate((10, 40)):
            workspace.put(flights(seed, 100 * batches))
            before = server.calls("/plain/0-")
            workspace.finish()
            calls.append(server.calls("/plain/0-") - before)
        assert calls[1] - calls[0] <= 30 * CALLS, calls


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("made", [stores.on_s3, stores.on_hdfs])
def test_races_freezes_and_kills(tmp_path: Path, made: Any, seed: int) -> None:
    with ExitStack() as stack:
        workspace = made(tmp_path, stack)
        stack.callback(workspace.close)
        stores.scenario(seed, workspace)
