"""The API of a Kubernetes for tests, that of fabric8's mock server, with a stand-in for a kubelet that runs the pods of
Spark's executors as processes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support import hadoop
from tests.support.paths import ROOT

__all__ = ["Kubernetes", "serving"]

_SOURCE = Path(__file__).with_name("MiniKubernetes.java")
_ENTRYPOINT = ROOT / "examples" / "deploy" / "image" / "entrypoint.py"


class Kubernetes:
    """``url``: of its API."""

    def __init__(self, servers: hadoop.Servers) -> None:
        self._servers = servers
        self.url = servers.said

    def executors(self) -> list[int]:
        """The Java processes of Spark's executors."""
        return self._servers.running("KubernetesExecutorBackend")


@contextmanager
def serving(folder: Path) -> Iterator[Kubernetes]:
    """One whose pods run in a folder, by the entry point of the image in examples/deploy."""
    entrypoint = (sys.executable, str(_ENTRYPOINT))
    with hadoop.started(_SOURCE, ["kubernetes"], folder, str(folder / "pods"), *entrypoint) as servers:
        yield Kubernetes(servers)
