"""Containers with a real cluster under them, a standalone one: a machine is lost in the middle of a batch; and another
version is deployed while the first one has all of its cores.
"""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

from tests.acceptance.harness import LATE_FROM, Process, Workspace
from tests.acceptance.processes import descendants
from tests.jobs import JOBS
from tests.soak import cluster_changes, failover
from tests.soak.deployed import FILE, MORE, Deploying
from tests.soak.served import Served
from tests.support import cluster, jvm
from tests.support.cluster import Cluster, Daemon

JOB = JOBS / "clustered"
COUNT, BATCHES = 900, 4


def worker_lost(seed: int, place: Workspace) -> str:
    """One of two workers is killed, with all that runs on it, while a task of a batch holds there."""
    folder = place.folder / "job"
    shutil.copytree(JOB, folder)
    workspace = Workspace(folder, job=JOB / "delays.py", patience=place.patience, spark__memory="1g")
    try:
        with cluster.started(place.folder / "cluster") as spark:
            served = Served(workspace, count=COUNT, seed=seed)
            workspace.settings["job__max_rows_per_batch"] = COUNT // BATCHES
            return _lost(random.Random(seed), spark, served, place.folder / "note")
    finally:
        workspace.close()


def deployed_when_full(seed: int, place: Workspace) -> str:
    """The containers of the other version get no executor before those of the first one have ended."""
    folder = place.folder / "job"
    folder.mkdir(parents=True)
    with cluster.started(place.folder / "cluster", workers=1, cores=1) as spark:
        conf = {"spark.executor.memory": "640m", "spark.executor.extraJavaOptions": jvm.START}
        workspace = Workspace(
            folder,
            job=FILE,
            patience=cluster_changes.PATIENCE,
            spark__memory="1g",
            spark__master=spark.url,
            spark__conf=json.dumps(conf),
        )
        job = Deploying(workspace, seed, every=3.0)
        try:
            job.version("v1", FILE.read_text())
            job.call("start", FILE.name)
            job.until_seen("v1", 200)
            job.version("v2", FILE.read_text() + MORE)
            job.call("deploy", FILE.name)
            job.until_seen("v2", 200)
            job.finish()
            job.check(["v1", "v2"])
        finally:
            job.clear_away()
            workspace.close()
    return f"{job.put} records, {job.count('v2')} of version 2"


def _lost(dice: random.Random, spark: Cluster, served: Served, note: Path) -> str:
    late = [flight["origin"] for flight in served.flights if (flight["dep_delay"] or 0) >= LATE_FROM]
    at = late[round(len(late) * dice.uniform(0.3, 0.6))]
    conf = {
        "spark.executorEnv.WITNESS_HOLD_AT": at,
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
    return f"a worker was lost in batch {lane.planned}, at {at}"


def _held(process: Process, note: Path) -> Any:
    process.until("a task that holds", lambda: note.exists() and note.read_text().endswith("\n"))
    return json.loads(note.read_text())


def _worker_of(spark: Cluster, pid: int) -> Daemon:
    (found,) = (worker for worker in spark.workers if pid in descendants(worker.popen.pid))
    return found
