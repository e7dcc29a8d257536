"""A container with a real cluster under it: a standalone one, of which a machine is lost in the middle of a batch."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import cluster, failover, jvm
from tests.acceptance.harness import LATE_FROM, Process, Workspace, descendants
from tests.cluster import Cluster, Daemon
from tests.failover import Served

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(300)]

JOB = Path(__file__).parent / "clustered"
COUNT, BATCHES = 900, 4


@pytest.fixture
def spark(tmp_path: Path) -> Iterator[Cluster]:
    with cluster.started(tmp_path / "cluster") as started:
        yield started


@pytest.fixture
def served(tmp_path: Path, spark: Cluster) -> Iterator[Served]:
    folder = tmp_path / "job"
    shutil.copytree(JOB, folder)
    workspace = Workspace(folder, job=JOB / "delays.py", spark__memory="1g")
    try:
        made = Served(workspace, count=COUNT, seed=3)
        workspace.settings["job__max_rows_per_batch"] = COUNT // BATCHES
        yield made
    finally:
        workspace.close()


def test_a_worker_is_lost_in_the_middle_of_a_batch(spark: Cluster, served: Served, tmp_path: Path) -> None:
    note = tmp_path / "note"
    late = [flight["origin"] for flight in served.flights if (flight["dep_delay"] or 0) >= LATE_FROM]
    conf = {
        "spark.executorEnv.WITNESS_HOLD_AT": late[len(late) // 3],
        "spark.executorEnv.WITNESS_NOTE": str(note),
        "spark.executor.memory": "640m",
        "spark.executor.extraJavaOptions": jvm.START,
    }
    served.start(spark__conf=json.dumps(conf))
    process = served.workspace.start("container", failover.JOB, "--coordinator", served.url, "--master", spark.url)
    held = _held(process, note)
    process.until("executors of both workers", lambda: all(map(spark.executors, spark.workers)))
    lost = _worker_of(spark, held["pid"])
    for file in (held["anabranch"], held["notes"]):
        assert Path(file).is_relative_to(lost.folder), f"{file} isn't what the container has sent"

    lane = served.workspace.lane("0-")
    assert lane.planned == lane.committed + 1 > 0, "no batch is under way, or it is the first"
    served.check_under_way()
    lost.kill()
    spark.until("loss", lambda state: state["aliveworkers"] == 1)
    process.until("the batch that was lost", lambda: served.workspace.committed("0-") > lane.committed)
    failover.ended_well(process)

    served.check()
    assert spark.state()["activeapps"] == [], "the application is still there"
    served.end()


def _held(process: Process, note: Path) -> Any:
    process.until("a task that holds", lambda: note.exists() and note.read_text().endswith("\n"))
    return json.loads(note.read_text())


def _worker_of(spark: Cluster, pid: int) -> Daemon:
    (found,) = (worker for worker in spark.workers if pid in descendants(worker.popen.pid))
    return found
