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
from tests.soak.cluster_changes import PATIENCE, go_through
from tests.soak.deployed import FILE
from tests.support import hadoop, jvm, tutorial, yarn
from tests.support.paths import ROOT
from tests.support.yarn import Yarn

__all__ = ["OnYarn", "changed", "workspace_of"]

PAGE = ROOT / "docs" / "how-to" / "run-on-yarn.md"
KINDS = ("executor", "application master", "node")
"""What is lost, by seed."""
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
        super().__init__(folder, job=FILE, patience=PATIENCE, spark__conf=conf, spark__memory="768m", **settings)
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
    """A workspace on a YARN of its own, whose files aren't in the job's folder: its nodes have Python code."""
    server = stack.enter_context(yarn.serving(folder / "hadoop"))
    (folder / "job").mkdir()
    return OnYarn(folder / "job", server)


def changed(seed: int, workspace: Workspace) -> str:
    """An executor, the application master or a node is lost; see :func:`go_through`."""
    assert isinstance(workspace, OnYarn)
    dice, server, kind = random.Random(seed), workspace.yarn, KINDS[seed % len(KINDS)]

    def lose() -> None:
        if kind == "executor":
            hadoop.kill(dice.choice(server.executors()))
        elif kind == "application master":
            (one,) = server.application_masters()
            hadoop.kill(one)
        else:
            server.stop_node(dice.randrange(yarn.NODES))

    conf: dict[str, Any] = tutorial.settings(PAGE)["spark"]["conf"]
    count = int(conf["spark.executor.instances"])
    return f"{kind} lost; {go_through(workspace, seed, lose, server.executors, count, server.processes)}"
