"""A job on YARN with its lanes on HDFS, as docs/how-to/run-on-yarn.md says: an executor, the application master or a
node is lost, and then all is changed that can be changed."""

from __future__ import annotations

import json
import os
import random
import shlex
import subprocess
import sys
import sysconfig
import venv
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.acceptance.harness import Workspace
from tests.soak.deployed import FILE, JOB, MORE, Deploying, seldom
from tests.support import hadoop, jvm, tutorial, yarn
from tests.support.paths import ROOT
from tests.support.yarn import Yarn

__all__ = ["OnYarn", "changed", "workspace_of"]

PAGE = ROOT / "docs" / "how-to" / "run-on-yarn.md"
KINDS = ("executor", "application master", "node")
"""What is lost, by seed."""
_NEXT = 200
"""So many records come out before the next thing happens."""
_SMALL = {
    "spark.executor.memory": "640m",
    "spark.executor.memoryOverhead": "384m",
    "spark.executor.extraJavaOptions": jvm.COMPILER,
}
_BY_HAND = ("export HADOOP_CONF_DIR", "anabranch ")
"""Commands of the page that the scenario gives itself."""


class OnYarn(Workspace):
    """A workspace whose containers have their executors on a YARN. Its settings are those of the page."""

    def __init__(self, folder: Path, server: Yarn) -> None:
        told = tutorial.settings(PAGE)
        conf = json.dumps({**told["spark"]["conf"], **_SMALL})
        settings = {"storage__root": told["storage"]["root"], "spark__master": told["spark"]["master"]}
        super().__init__(folder, job=FILE, spark__conf=conf, spark__memory="768m", **settings)
        self.environment["HADOOP_CONF_DIR"] = str(server.hdfs.conf)
        self.yarn = server
        self._follow_page()

    def _follow_page(self) -> None:
        """Give the commands of the page, but for those of ``pip``, which would take long: the environment that is sent
        has the packages of this one. There is no ``hdfs`` here but the class that it runs."""
        programs = self.folder / "bin"
        programs.mkdir()
        path = f"{self.environment['HADOOP_CONF_DIR']}:{hadoop.JARS}/*"
        command = shlex.join(["java", *jvm.COMPILER.split(), "-cp", path, "org.apache.hadoop.fs.FsShell"])
        script = f'#!/bin/sh\n[ "$1" = dfs ] && shift && exec {command} "$@"\n'
        (programs / "hdfs").write_text(script)
        (programs / "hdfs").chmod(0o755)
        venv.create(self.folder / "environment", symlinks=True)
        packages = Path(sysconfig.get_path("purelib", vars={"base": str(self.folder / "environment")}))
        (packages / "packages.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
        here = os.pathsep.join([str(programs), str(Path(sys.executable).parent), os.environ["PATH"]])
        environment = {**os.environ, **self.environment, "PATH": here}
        for block in tutorial.blocks(PAGE.read_text()):
            lines = [line for line in block.text.splitlines() if block.kind == "sh" and _is_given(line)]
            told = "\n".join(lines)
            done = subprocess.run(
                ["bash", "-euc", told], cwd=self.folder, env=environment, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, f"{told}\n{done.stdout}\n{done.stderr}"
        assert (self.folder / "environment.tar.gz").exists()


def _is_given(line: str) -> bool:
    return not line.startswith(_BY_HAND) and "pip install" not in line and "-m venv" not in line


def workspace_of(folder: Path, stack: ExitStack) -> OnYarn:
    """A workspace on a YARN of its own."""
    return OnYarn(folder, stack.enter_context(yarn.serving(folder / "hadoop")))


def changed(seed: int, workspace: Workspace) -> str:
    """Something is lost in the middle of a batch; then the job is scaled up and down, its input gets more partitions,
    it is drained, started again, and another version is deployed, while records come."""
    assert isinstance(workspace, OnYarn)
    dice, server, kind = random.Random(seed), workspace.yarn, KINDS[seed % len(KINDS)]
    job = Deploying(workspace, seed)
    job.version("v1", FILE.read_text())
    try:
        job.call("start", FILE.name)
        job.until_seen("v1", _NEXT)
        _lose(kind, dice, server)
        job.until_seen("v1", _NEXT)
        job.until("its executors are there again", seldom(lambda: len(server.executors()) == _executors()))
        for factor in (4, 1):
            job.call("scale", JOB, "--factor", str(factor))
            assert job.client.model(JOB).factor == factor
            job.until_seen("v1", _NEXT)

        job.until_all_is_read()  # no order is promised between old records and those in new partitions
        workspace.system.expand("flights", 8)
        job.call("expand", JOB)
        job.until_seen("v1", _NEXT)

        job.call("drain", JOB, "--up-to", "latest")
        assert job.client.status(JOB).state == "drained"
        job.coordinator.until("no container lives", seldom(lambda: not job.processes()))
        job.coordinator.until("YARN has nothing left of it", seldom(lambda: not server.processes()))
        job.call("start", FILE.name)
        job.until_seen("v1", _NEXT)
        job.version("v2", FILE.read_text() + MORE)
        job.call("deploy", FILE.name)
        job.until_seen("v2", _NEXT)
        job.finish()
        job.check(["v1", "v2"])
    finally:
        job.clear_away()
    return f"{kind} lost; {job.put} records"


def _executors() -> int:
    conf: dict[str, Any] = tutorial.settings(PAGE)["spark"]["conf"]
    return int(conf["spark.executor.instances"])


def _lose(kind: str, dice: random.Random, server: Yarn) -> None:
    if kind == "executor":
        server.kill(dice.choice(server.executors()))
    elif kind == "application master":
        (one,) = server.application_masters()
        server.kill(one)
    else:
        server.stop_node(dice.randrange(yarn.NODES))
