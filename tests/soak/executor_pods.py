"""A job whose executors are pods that Spark's Kubernetes scheduler makes, with the settings of the component
examples/deploy/kubernetes/executors: the API server is a mock, and pods run as processes."""

from __future__ import annotations

import json
import random
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.acceptance.harness import Workspace
from tests.soak.cluster_changes import PATIENCE, go_through
from tests.soak.deployed import FILE
from tests.support import hadoop, jvm, kubernetes, pods, tutorial
from tests.support.kubernetes import Kubernetes
from tests.support.paths import ROOT

__all__ = ["OnKubernetes", "changed", "workspace_of"]

PAGE = ROOT / "docs" / "how-to" / "run-on-kubernetes.md"
COUNT = 2
_SMALL = {
    "spark.executor.instances": str(COUNT),
    "spark.executor.cores": "1",
    "spark.executor.memory": "640m",
    "spark.executor.memoryOverhead": "384m",
    "spark.executor.extraJavaOptions": jvm.COMPILER,
}
_FIELDS = {"$(POD_IP)": "127.0.0.1", "$(POD_NAMESPACE)": "default"}
_OF_A_REAL_POD = ("spark.kubernetes.driver.pod.name",)


class OnKubernetes(Workspace):
    """A workspace whose containers make pods for their tasks. The settings are those of the page and the component."""

    def __init__(self, folder: Path, server: Kubernetes) -> None:
        (driver,) = pods.documents(pods.FOLDER / "executors" / "driver.yaml")
        (container,) = driver["spec"]["template"]["spec"]["containers"]
        text = next(each["value"] for each in container["env"] if each["name"] == "ANABRANCH__SPARK__CONF")
        for field, value in _FIELDS.items():
            text = text.replace(field, value)
        given: dict[str, Any] = {**tutorial.settings(PAGE)["spark"]["conf"], **json.loads(text), **_SMALL}
        conf = {name: value for name, value in given.items() if name not in _OF_A_REAL_POD}
        master = f"k8s://{server.url}"
        settings = {"spark__conf": json.dumps(conf), "spark__memory": "768m", "spark__master": master}
        super().__init__(folder, job=FILE, patience=PATIENCE, **settings)
        self.kubernetes = server


def workspace_of(folder: Path, stack: ExitStack) -> OnKubernetes:
    """A workspace with an API server of its own, whose pods' files aren't in the job's folder."""
    server = stack.enter_context(kubernetes.serving(folder / "kubernetes"))
    (folder / "job").mkdir()
    return OnKubernetes(folder / "job", server)


def changed(seed: int, workspace: Workspace) -> str:
    """An executor's process is killed, as for its memory; see :func:`go_through`."""
    assert isinstance(workspace, OnKubernetes)
    dice, server = random.Random(seed), workspace.kubernetes
    told = go_through(
        workspace, seed, lambda: hadoop.kill(dice.choice(server.executors())), server.executors, COUNT, server.executors
    )
    return f"an executor's pod lost; {told}"
